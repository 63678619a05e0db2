"""At least one instruction for each form of the table, over registers that `PROLOG` declares.

Of them, `r9` holds an address in shared memory and `l0` one in global memory.
"""

PROLOG = (
    ".reg .pred p, q, s; .reg .b16 h<4>; .reg .b32 r<12>; .reg .b64 l<4>; "
    "mov.b32 r9, %0; mov.b64 l0, %1; setp.ne.b32 q, r9, 0; mov.pred s, q; mov.b32 {h1, h2}, r9; "
)
EXAMPLES = """
mov.b32 r0, r1; mov.f64 l0, 0d3FF0000000000000; mov.pred p, q; mov.u32 r0, %tid.x; mov.u32 r0, WARP_SZ;
mov.b32 r0, {h0, h1}; mov.b64 l0, {r0, r1}; mov.b32 {h0, h1}, r0; mov.b64 {r0, r1}, l0;
cvta.to.shared.u64 l0, l1; cvta.to.global.u64 l0, l1; cvta.shared.u64 l0, l1; cvta.global.u64 l0, l1;
isspacep.shared p, l0; cvt.u32.u64 r0, l0; cvt.s64.s32 l0, r0; cvt.u16.u32 h0, r0; cvt.s32.s8 r0, r1;
cvt.rzi.s32.f32 r0, r1; cvt.rni.u32.f64 r0, l0; cvt.rmi.ftz.s64.f32 l0, r1; cvt.rpi.s32.f16 r0, h0;
cvt.rn.f32.s32 r0, r1; cvt.rz.f32.u64 r0, l1; cvt.rm.f64.s64 l0, l1; cvt.rp.f32.u32 r0, r1;
cvt.rn.f16.s32 h0, r1; cvt.f32.f16 r0, h0; cvt.f32.bf16 r0, h0; cvt.f64.f32 l0, r0;
cvt.ftz.sat.f32.f32 r0, r1; cvt.rni.f32.f32 r0, r1; cvt.rzi.f64.f64 l0, l1; cvt.rn.f32.f64 r0, l0;
cvt.rm.f32.f64 r0, l0; cvt.rn.f16.f32 h0, r0; cvt.rz.bf16.f32 h0, r0; cvt.rn.f16.f64 h0, l0;
cvt.rn.f16x2.f32 r0, r1, r2; cvt.rz.bf16x2.f32 r0, r1, r2; cvt.rn.relu.bf16x2.f32 r0, r1, r2;
cvt.rz.relu.f16x2.f32 r0, r1, r2; cvt.rna.tf32.f32 r0, r1; cvt.rn.satfinite.e4m3x2.f32 h0, r0, r1;
cvt.rn.satfinite.relu.e5m2x2.f32 h0, r0, r1; cvt.rn.satfinite.e4m3x2.f16x2 h0, r0;
cvt.rn.f16x2.e4m3x2 r0, h0; cvt.rn.relu.f16x2.e5m2x2 r0, h0; add.s32 r0, r1, -5; add.u64 l0, l1, 0xFF;
add.cc.u32 r0, r1, r2; addc.cc.u32 r0, r1, r2; addc.u32 r0, r1, r2; add.f32 r0, r1, 0f3F800000;
add.rn.ftz.sat.f32 r0, r1, r2; add.f64 l0, l1, 1.5; add.f16x2 r0, r1, r2; add.rn.bf16x2 r0, r1, r2;
add.f16 h0, h1, h2; sub.u16 h0, h1, h2; sub.cc.u32 r0, r1, r2; subc.cc.u32 r0, r1, r2; subc.u32 r0, r1, r2;
sub.f32 r0, r1, r2; mul.lo.s32 r0, r1, r2; mul.hi.u64 l0, l1, l2; mul.hi.s32 r0, r1, r2;
mul.wide.u32 l0, r1, r2; mul.wide.s16 r0, h1, h2; mul.ftz.f32 r0, r1, r2; mul.f16x2 r0, r1, r2;
mad.lo.u32 r0, r1, r2, r3; mad.hi.s64 l0, l1, l2, l3; mad.wide.s32 l0, r1, r2, l1;
mad.rn.f32 r0, r1, r2, r3; fma.rn.f32 r0, r1, r2, r3; fma.rn.ftz.sat.f32 r0, r1, r2, r3;
fma.rn.f64 l0, l1, l2, l3; fma.rn.relu.f16x2 r0, r1, r2, r3; fma.rn.bf16 h0, h1, h2, h3; div.u32 r0, r1, 3;
rem.s64 l0, l1, 7; div.rn.f32 r0, r1, r2; div.full.ftz.f32 r0, r1, r2; div.rn.f64 l0, l1, l2;
div.approx.f32 r0, r1, r2;
rcp.approx.ftz.f32 r0, r1; rcp.rn.f64 l0, l1; sqrt.approx.f32 r0, r1; sqrt.rn.f64 l0, l1;
rsqrt.approx.ftz.f32 r0, r1; sin.approx.f32 r0, r1; cos.approx.f32 r0, r1; lg2.approx.ftz.f32 r0, r1;
ex2.approx.ftz.f32 r0, r1; ex2.approx.f16x2 r0, r1; tanh.approx.f32 r0, r1; tanh.approx.bf16x2 r0, r1;
abs.s32 r0, r1; neg.s64 l0, l1; abs.ftz.f32 r0, r1; neg.f16x2 r0, r1; copysign.f32 r0, r1, r2;
min.s32 r0, r1, r2; max.u64 l0, l1, l2; min.ftz.f32 r0, r1, r2; max.NaN.f32 r0, r1, r2;
max.bf16x2 r0, r1, r2; min.f16 h0, h1, h2; max.NaN.f16x2 r0, r1, r2; sad.s32 r0, r1, r2, r3;
and.b32 r0, r1, r2; and.pred p, q, s; or.b64 l0, l1, l2; or.pred p, q, !s; xor.b16 h0, h1, h2;
xor.pred p, q, s; not.b32 r0, r1; not.pred p, q; cnot.b32 r0, r1; lop3.b32 r0, r1, r2, r3, 0xEA;
prmt.b32 r0, r1, r2, 0x5410; shf.l.wrap.b32 r0, r1, r2, r3; shf.r.clamp.b32 r0, r1, r2, r3;
shl.b32 r0, r1, 5; shr.s64 l0, l1, r0; bfe.s32 r0, r1, 3, 5; bfi.b64 l0, l1, l2, 3, 5; popc.b64 r0, l0;
clz.b32 r0, r1; brev.b64 l0, l1; dp4a.u32.s32 r0, r1, r2, r3; setp.lt.s32 p, r0, r1; setp.neu.f32 p, r0, r1;
red.global.add.v4.f32 [l0], {r0, r1, r2, 0f3F800000}; red.v2.bf16x2.add.noftz [l0], {r0, r1};
atom.global.add.noftz.v2.f16x2 {r0, r1}, [l0], {r2, r3}; atom.v2.f32.global.add {r0, r1}, [l0], {r2, r3};
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [r9], r0, [r8];
st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [r9], {r0, r1}, [r8];
vabsdiff4.u32.u32.u32.add r0, r1, r2, r3; vabsdiff4.s32.s32.s32 r0, r1, r2, r3;
setp.ge.and.u64 p, l0, l1, q; setp.gt.f16 p, h0, h1; selp.b32 r0, r1, r2, p; selp.f64 l0, l1, l2, p;
ld.global.nc.L1::no_allocate.L2::128B.b32 r0, [l0]; ld.volatile.shared.u8 r0, [r9];
ld.acquire.gpu.b64 l0, [l0 + 8]; ld.global.v4.f32 $4, [l0]; ld.shared::cta.v2.b16 {h0, h1}, [r9];
ld.global.nc.v4.f32 $4, [l0];
ldu.global.b32 r0, [l0]; st.global.cs.s16 [l0], h0; st.release.sys.global.b32 [l0 + 4], r0;
st.shared.v4.b32 [r9], $4; atom.global.add.f32 r0, [l0], r1; atom.acq_rel.gpu.shared.inc.u32 r0, [r9], r1;
atom.exch.b64 l0, [l0], l1; atom.add.noftz.f16x2 r0, [l0], r1; atom.global.cas.b32 r0, [l0], r1, r2;
atom.shared.min.s32 r0, [r9], r1; red.global.add.u32 [l0], r0;
red.relaxed.gpu.global.add.noftz.bf16x2 [l0], r0; red.global.add.v4.f32 [l0], $4; prefetch.global.L2 [l0];
prefetchu.L1 [l0]; applypriority.global.L2::evict_normal [l0], 128;
createpolicy.fractional.L2::evict_first.b64 l0, 0f3F800000; ld.global.L2::cache_hint.b32 r0, [l0], l1;
membar.gl; fence.proxy.async; fence.acq_rel.gpu; fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta; griddepcontrol.wait; setmaxnreg.inc.sync.aligned.u32 64; bar.sync 0;
bar.sync 1, 64; bar.arrive 2, 64; barrier.sync 3; barrier.sync.aligned 4, 32; barrier.arrive 5, 64;
barrier.cta.sync.aligned 0; bar.warp.sync 0xffffffff; activemask.b32 r0; elect.sync r0|p, 0xffffffff;
elect.sync _|p, -1; shfl.sync.up.b32 r0, r1, 1, 0, -1; shfl.sync.idx.b32 r0|p, r1, 3, 31, -1;
vote.sync.all.pred p, q, -1; vote.sync.ballot.b32 r0, q, -1; match.any.sync.b64 r0, l0, -1;
redux.sync.add.s32 r0, r1, -1; redux.sync.xor.b32 r0, r1, -1;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 $4, [r9];
ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {r0}, [r9];
stmatrix.sync.aligned.m8n8.x2.shared.b16 [r9], {r0, r1};
stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [r9], $4; movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 $4, $A, $B, $4;
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {r0, r1}, {r4, r5}, {r8}, {r0, r1};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 $4, $A, $B, $4;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 $4, $A, $B, $4;
mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 $4, $A, $B, $4;
mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 $4, $A, $B, $4;
wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 $4, l0, l1, p, 1, -1, 1, 0;
wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 $4, $A, l1, p, -1, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 $4, l0, l1, 0, 1, 1, 0, 1;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 $4, $A, l1, p, 1, 1, 0;
wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $4, l0, l1, p, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $4, $A, l1, p, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 $4, l0, l1, p, 1, 1;
wgmma.mma_async.sync.aligned.m64n16k32.f16.e5m2.e5m2 $4, $A, l1, p, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 $4, l0, l1, p;
wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.u8 $4, $A, l1, p;
cp.async.cg.shared.global [r9], [l0], 16; cp.async.ca.shared.global.L2::128B [r9], [l0], 8, r0;
cp.async.commit_group; cp.async.wait_group 1; cp.async.wait_all;
cp.async.mbarrier.arrive.noinc.shared.b64 [r9]; cp.async.mbarrier.arrive.shared.b64 [r9];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r9], [l0], r0, [r9];
cp.async.bulk.global.shared::cta.bulk_group [l0], [r9], r0; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; cp.async.bulk.prefetch.L2.global [l0], 128;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
mapa.shared::cluster.u32 r0, r9, 1; mapa.u64 l2, l0, 0; getctarank.shared::cluster.u32 r0, r9;
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [r9], [r9], 16, [r9];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [r9], [l0], 16, [r9],
    h1;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [r9], [l0, {r1}], [r9];
cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [r9],
    [l0, {r1, r2, -1, r4, 0}], [r9], l1;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [r9],
    [l0, {r1, r2}], [r9], h1;
cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [l0, {r1, r2, r3}], [r9];
cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [l0, {r1, r2, r3, r4}], [r9], l1;
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [l0, {r1, r2}], [r9];
cp.reduce.async.bulk.tensor.1d.global.shared::cta.max.bulk_group [l0, {r1}], [r9];
cp.reduce.async.bulk.tensor.1d.global.shared::cta.xor.bulk_group.L2::cache_hint [l0, {r1}], [r9], l1;
cp.reduce.async.bulk.tensor.1d.global.shared::cta.inc.bulk_group [l0, {r1}], [r9];
cp.async.bulk.prefetch.tensor.2d.L2.global.tile [l0, {r1, r2}]; prefetch.tensormap [l0];
prefetch.param.tensormap [l0]; fence.proxy.tensormap::generic.acquire.gpu [l0], 128;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
mbarrier.init.shared.b64 [r9], 32; mbarrier.inval.shared.b64 [r9]; mbarrier.arrive.shared.b64 l0, [r9];
mbarrier.arrive.shared.b64 _, [r9], 2; mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [r9], 128;
mbarrier.arrive_drop.shared.b64 l0, [r9]; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [r9], 64;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [r9], 64; mbarrier.test_wait.shared.b64 p, [r9], l0;
mbarrier.test_wait.parity.shared::cta.b64 p, [r9], 0; mbarrier.try_wait.shared.b64 p, [r9], l0;
mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [r9], 1;
"""
_VECTORS = {"$4": "{r0, r1, r2, r3}", "$A": "{r4, r5, r6, r7}", "$B": "{r8, r10}"}
for short, vector in _VECTORS.items():
    EXAMPLES = EXAMPLES.replace(short, vector)
INSTRUCTIONS = tuple(text.strip() + ";" for text in EXAMPLES.replace("\n", " ").split(";") if text.strip())
