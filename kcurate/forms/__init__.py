"""Code inside files of another form: Python strings and notebooks as files of CUDA and Triton.

A reader takes the parts out of a file, and a part is read as a file in a folder of the container's name:
`answer.py/source.cu`. Every segment of its bytes says where it stands in the container, so spans lead back.

| module | owns |
|---|---|
| `parts` | parts of a file, and the source map from their bytes and lines to the file's |
| `readers` | the protocol, its plugins, and reading a part by its path |
| `python_strings` | programs in the string constants of Python |
| `constant_texts` | expressions of Python that are constant texts |
| `python_launches` | launches that a Python file writes, in the words of C |
| `literals` | string literals of Python and JSON, decoded with the place of each byte |
| `notebooks` | the cells of Jupyter notebooks |

Nothing of a file is executed. Not covered: what parts mean (`kcurate.cuda_source`, `kcurate.triton_source`).
"""
