"""Tensors of NumPy arrays with what Triton's interpreter asks of PyTorch's."""

import numpy as np


class Storage:
    def __init__(self, data):
        self.data = data

    def data_ptr(self):
        return self.data.ctypes.data

    def nbytes(self):
        return self.data.nbytes

    def cpu(self):
        return Storage(self.data.copy())

    def copy_(self, other):
        self.data[:] = other.data


class Tensor:
    def __init__(self, array=None, dtype=None):
        self.dtype = dtype
        self.device = "cpu"
        if array is not None:
            self.dtype = f"torch.{array.dtype}"
            self.storage, self.offset = Storage(array.reshape(-1).view(np.uint8)), 0
            self.shape, self.steps = array.shape, tuple(one // array.itemsize for one in array.strides)
            self.width = array.itemsize

    def untyped_storage(self):
        return self.storage

    def storage_offset(self):
        return self.offset

    def size(self):
        return self.shape

    def stride(self):
        return self.steps

    def data_ptr(self):
        return self.storage.data_ptr() + self.offset * self.width

    def new_empty(self, _, device):
        made = Tensor(dtype=self.dtype)
        made.width = self.width
        return made

    def set_(self, storage, offset, shape, steps):
        self.storage, self.offset, self.shape, self.steps = storage, offset, shape, steps

    def numpy(self):
        return self.storage.data.view(self.dtype.split(".")[1])

    def rows(self, first):
        """The rows from `first` on, in the same storage."""
        made = self.new_empty(0, "cpu")
        made.set_(self.storage, first * self.steps[0], (self.shape[0] - first, *self.shape[1:]), self.steps)
        return made
