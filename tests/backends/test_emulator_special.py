"""The functions that the C library lacks, against Python's normal distribution and exact sums."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
from emulation import run


def test_inverses_of_the_normal_distribution() -> None:
    code = """extern "C" __global__ void f(const double *p, double *out, int n) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            out[3 * i] = normcdfinv(p[i]);
            out[3 * i + 1] = erfcinv(2 * p[i]) * -1.4142135623730951;
            out[3 * i + 2] = normcdfinvf((float)p[i]);
        }
    }"""
    p = np.array([1e-300, 1e-30, 1e-6, 0.02, 0.2, 0.26, 0.45, 0.5, 0.7, 0.76, 0.99, 1 - 1e-9])
    out = run(code, p, np.zeros((12, 3)), np.int32(12), block=4)[1]
    expected = np.array([NormalDist().inv_cdf(float(value)) for value in p])
    np.testing.assert_allclose(out[:, 0], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(out[:, 1], expected, rtol=1e-12, atol=1e-15)
    nearest = p[1:-1].astype(np.float32)
    single = np.array([NormalDist().inv_cdf(float(value)) for value in nearest])
    np.testing.assert_allclose(out[1:-1, 2], single, rtol=1e-6, atol=1e-12)


def test_erfinv_undoes_erf_and_ends_at_infinity() -> None:
    code = """extern "C" __global__ void f(double *out) {
        out[0] = erfinv(erf(0.1)); out[1] = erfinv(erf(-0.9)); out[2] = erfinvf(erff(1.5f));
        out[3] = erfinv(1.0); out[4] = erfcinv(2.0); out[5] = erfinv(1.5);
    }"""
    (out,) = run(code, np.zeros(6), block=1)
    np.testing.assert_allclose(out[:3], [0.1, -0.9, 1.5], rtol=1e-5)
    assert out[3] == np.inf and out[4] == -np.inf and np.isnan(out[5])


def test_doubles_round_in_the_direction_asked_for() -> None:
    code = """extern "C" __global__ void f(const double *x, const double *y, double *out) {
        const int i = threadIdx.x;
        const double a = x[i], b = y[i];
        double got[] = {__dadd_rd(a, b), __dadd_ru(a, b), __dadd_rz(a, b), __dsub_rd(a, b), __dsub_ru(a, b),
                        __dsub_rz(a, b), __dmul_rd(a, b), __dmul_ru(a, b), __dmul_rz(a, b), __ddiv_rd(a, b),
                        __ddiv_ru(a, b), __ddiv_rz(a, b)};
        for (int j = 0; j < 12; j++) out[12 * i + j] = got[j];
    }"""
    x, y = (np.random.default_rng(seed).normal(size=64) for seed in (1, 2))
    y[:8] = 2.0
    out = run(code, x, y, np.zeros((64, 4, 3)), block=64)[2]
    for a, b, rows in zip(map(Fraction, x.tolist()), map(Fraction, y.tolist()), out, strict=True):
        for exact, (down, up, zero) in zip((a + b, a - b, a * b, a / b), rows.tolist(), strict=True):
            assert Fraction(down) <= exact <= Fraction(up)
            assert up == down if exact == Fraction(down) else up == np.nextafter(down, np.inf)
            assert zero == (down if exact > 0 else up)


def test_norms_and_the_least_of_long_integers() -> None:
    code = """extern "C" __global__ void f(double *out) {
        const double x[3] = {2, 3, 6};
        const float z[2] = {3, 4};
        int quotient;
        out[0] = norm(3, x); out[1] = normf(2, z); out[2] = norm3d(2, 3, 6); out[3] = rnorm4d(1, 1, 1, 1);
        out[4] = rhypot(3, 4); out[5] = llmin(-1, 1); out[6] = ullmax(1, ~0ull) > 1;
        out[7] = __urhadd(~0u, 0);
        out[8] = remquo(7.0, 2.0, &quotient); out[9] = quotient & 7; out[10] = umax(1, ~0u);
    }"""
    (out,) = run(code, np.zeros(11), block=1)
    assert out.tolist() == [7, 5, 7, 0.5, 0.2, -1, 1, 2.0**31, -1, 4, 2.0**32 - 1]
