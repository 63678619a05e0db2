"""Generators for flow on unstructured meshes: neighbouring cells, and a state of the fluid.

Not covered: graphs and matrices (`kcurate.problem.inputs.generators`, `kcurate.problem.inputs.linked`).
"""

from __future__ import annotations

import numpy as np

from kcurate.problem.inputs.draws import REAL, Array, Draw, generator


@generator()
def mesh_neighbours(draw: Draw) -> Array:
    """The neighbours of each cell, (faces, cells): close in number; -1 at an inner wall (two of a hundred
    faces), -2 at the outer boundary."""
    faces, cells = draw.shape
    near = np.array([-1, 1, -max(1, int(cells**0.5)), max(1, int(cells**0.5))])
    jitter = draw.rng.integers(-2, 3, (faces, cells))
    neighbours = np.arange(cells)[None, :] + near[np.arange(faces) % near.size, None] + jitter
    neighbours = np.where((neighbours < 0) | (neighbours >= cells), -2, neighbours)
    return np.where(draw.rng.random((faces, cells)) < 0.02, -1, neighbours)


@generator(mach=REAL)
def euler_state(draw: Draw) -> Array:
    """Density, three momenta and energy of a gas in each cell, (5, cells): a flow of `mach` (default 1.2)
    along the first axis, disturbed; pressures and densities are positive."""
    _, cells = draw.shape
    density = 1.4 * np.exp(0.1 * draw.rng.standard_normal(cells))
    velocity = 0.1 * draw.rng.standard_normal((3, cells))
    velocity[0] += draw.real("mach", 1.2)
    pressure = np.exp(0.1 * draw.rng.standard_normal(cells))
    energy = pressure / 0.4 + 0.5 * density * (velocity**2).sum(axis=0)
    return np.concatenate([density[None], density * velocity, energy[None]])
