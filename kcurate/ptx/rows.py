"""The meaning of each PTX instruction: one row per form, for the static check and for the emulator.

An opcode with a row in `EMULATED` or a name in `NOT_EMULATED` is allowed in a side; every other opcode is
refused. The emulator runs the forms of `EMULATED`; any other form of an allowed opcode ends a run as
unsupported. A row is `form | operands | C++`:

- form: the opcode, then its modifiers in order. `word` is required, `(a,b)` is one of these, `[a,b]` is
  optional and ignored by the emulator, `[...]*` is any number of these, `X=a,b` (or `X=[a,b]`) is one that
  the C++ refers to as `$X`, `%NAME` is a set in `SETS`.
- operands: `d` and `p` are written, the others read; `{a}` is a vector, `[m:S]` an address in state space `S`
  (without `S`: generic), `[m,{c}]` a tensor map's address with coordinates, `x:u32` has a type (default:
  `$T`), `x?` is optional.
- C++: the value that is written to `d` or `p`; a statement if there is neither or if it contains `$d`. `@f`
  is a function in `kcurate/backends/emulator/include/kcurate/ptx*.h`.

`.ftz` and `.sat` are applied to the operands and results of every form that has them. Source: PTX ISA 9.0,
"Instruction Set". Not covered: reading the rows (`kcurate.ptx.table`).
"""

from __future__ import annotations

from collections.abc import Mapping

SETS: Mapping[str, str] = {
    "INT": "u16,u32,u64,s16,s32,s64",
    "WORD": "u32,u64,s32,s64",
    "BITS": "b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64",
    "AXES": "1d,2d,3d,4d,5d",
    "SHORT": "f16,bf16,f16x2,bf16x2",
    "MEMORY": "b8,b16,b32,b64,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64",
    "SPACE": "global,shared,shared::cta,shared::cluster,local,const",
    "SHARED": "shared,shared::cta,shared::cluster",
    "ORDER": "relaxed,acquire,release,acq_rel,sc",
    "SCOPE": "cta,cluster,gpu,sys",
    "CACHE": "ca,cg,cs,lu,cv,wb,wt,L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,"
    "L1::no_allocate,L2::evict_normal,L2::evict_first,L2::evict_last,L2::cache_hint,L2::64B,L2::128B,L2::256B",
    "COMPARE": "eq,ne,lt,le,gt,ge,lo,ls,hi,hs,equ,neu,ltu,leu,gtu,geu,num,nan",
    "FP8": "e4m3,e5m2",
    "BYTE": "s8,u8",
    **{f"M64K{k}": ",".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32)},
    "M64INT": ",".join(f"m64n{n}k32" for n in (8, 24, *range(16, 257, 16))),
}

EMULATED = """
mov T=%BITS,pred                             | d a         | $a
mov T=b32,b64                                | d {a}       | @pack<$T>({$a})
mov T=b32,b64                                | {d} a       | @unpack({$d}, $a)
cvta to S=%SPACE T=u32,u64                   | d a         | @to_space_$S($a)
cvta S=%SPACE T=u32,u64                      | d a         | @from_space_$S($a)
isspacep S=shared,shared::cta                | p a:u64     | @is_shared($a)
cvt D=%INT,u8,s8 T=%INT,u8,s8                | d:D a       | ($D)$a
cvt R=rni,rzi,rmi,rpi [ftz] D=%INT T=f32,f64,f16,bf16 | d:D a | @to_integer<$D>(@round_$R($a))
cvt R=rn,rz,rm,rp D=f32,f64 T=%INT           | d:D a       | @from_integer_$R<$D>($a)
cvt rn D=f16,bf16 T=%INT                     | d:D a       | $D(double($a))
cvt [ftz] [sat] D=f32,f64 T=f32,f16,bf16     | d:D a       | $D(float($a))
cvt R=rni,rzi,rmi,rpi [ftz] [sat] D=f32,f64 T=f32,f64 | d:D a | $D(@round_$R($a))
cvt R=rn,rz,rm,rp [ftz] [sat] D=f32 T=f64    | d:D a       | @narrow_$R($a)
cvt R=rn,rz [ftz] [sat] D=f16,bf16 T=f32     | d:D a       | @shorten_$R<$D>($a)
cvt rn [sat] D=f16,bf16 T=f64                | d:D a       | $D($a)
cvt R=rn,rz L=[relu] D=f16x2,bf16x2 T=f32    | d:D a b     | @shorten_two_$R$L<$D>($a, $b)
cvt (rna) [satfinite] D=tf32 T=f32           | d:b32 a     | @to_tf32($a)
cvt rn satfinite L=[relu] D=e4m3x2,e5m2x2 T=f32 | d:b16 a b | @to_fp8_$D$L($a, $b)
cvt rn satfinite L=[relu] D=e4m3x2,e5m2x2 T=f16x2 | d:b16 a | @to_fp8_$D$L(float($a.y), float($a.x))
cvt rn L=[relu] D=f16x2 E=e4m3x2,e5m2x2      | d:D a:b16   | @from_fp8_$E$L($a)
add T=%INT                                   | d a b       | $a + $b
add cc T=u32,s32,b32,u64,s64                 | d a b       | @add_carry($c0, $a, $b, false)
addc C=[cc] T=u32,s32,u64,s64                | d a b       | @add_carry($c0, $a, $b, $c0)
add [rn] [ftz] [sat] T=f32,f64,%SHORT        | d a b       | $a + $b
sub T=%INT                                   | d a b       | $a - $b
sub cc T=u32,s32,u64,s64                     | d a b       | @sub_borrow($c0, $a, $b, false)
subc C=[cc] T=u32,s32,u64,s64                | d a b       | @sub_borrow($c0, $a, $b, $c0)
sub [rn] [ftz] [sat] T=f32,f64,%SHORT        | d a b       | $a - $b
mul lo T=%INT                                | d a b       | @low_product($a, $b)
mul hi T=%INT                                | d a b       | @high_product($a, $b)
mul wide T=u16,s16,u32,s32                   | d:wide a b  | @wide_product($a, $b)
mul [rn] [ftz] [sat] T=f32,f64,%SHORT        | d a b       | $a * $b
mad lo T=%INT                                | d a b c     | @low_product($a, $b) + $c
mad hi T=%INT                                | d a b c     | @high_product($a, $b) + $c
mad wide T=u16,s16,u32,s32                   | d:wide a b c:wide | @wide_product($a, $b) + $c
mad rn [ftz] [sat] T=f32,f64                 | d a b c     | @fused($a, $b, $c)
fma rn [ftz] [sat] L=[relu] T=f32,f64,%SHORT | d a b c     | @fused$L($a, $b, $c)
div T=%INT                                   | d a b       | $a / $b
rem T=%INT                                   | d a b       | $a % $b
div (rn,full) [ftz] T=f32                    | d a b       | $a / $b
div approx [ftz] T=f32                       | d a b       | __fdividef($a, $b)
div rn T=f64                                 | d a b       | $a / $b
rcp (rn,approx) [ftz] T=f32,f64              | d a         | $T(1) / $a
sqrt (rn,approx) [ftz] T=f32,f64             | d a         | @root($a)
rsqrt approx [ftz] T=f32,f64                 | d a         | $T(1 / @root((double)$a))
sin approx [ftz] T=f32                       | d a         | @sine($a)
cos approx [ftz] T=f32                       | d a         | @cosine($a)
lg2 approx [ftz] T=f32                       | d a         | @log_2($a)
ex2 approx [ftz] T=f32,%SHORT                | d a         | @power_of_2($a)
tanh approx T=f32,%SHORT                     | d a         | @tanh_of($a)
abs T=s16,s32,s64                            | d a         | $a < 0 ? -$a : $a
neg T=s16,s32,s64                            | d a         | -$a
abs [ftz] T=f32,f64,%SHORT                   | d a         | @magnitude($a)
neg [ftz] T=f32,f64,%SHORT                   | d a         | @negated($a)
copysign T=f32,f64                           | d a b       | @with_sign($b, $a)
min T=%INT                                   | d a b       | $b < $a ? $b : $a
max T=%INT                                   | d a b       | $a < $b ? $b : $a
min [ftz] N=[NaN] T=f32,f64,%SHORT           | d a b       | @lesser$N($a, $b)
max [ftz] N=[NaN] T=f32,f64,%SHORT           | d a b       | @greater$N($a, $b)
sad T=%INT                                   | d a b c     | $c + ($a < $b ? $b - $a : $a - $b)
and T=b16,b32,b64,pred                       | d a b       | $a & $b
or T=b16,b32,b64,pred                        | d a b       | $a | $b
xor T=b16,b32,b64,pred                       | d a b       | $a ^ $b
not T=b16,b32,b64                            | d a         | ~$a
not T=pred                                   | d a         | !$a
cnot T=b16,b32,b64                           | d a         | $a == 0
lop3 T=b32                                   | d a b c n:u32 | @logic_of_three($a, $b, $c, $n)
prmt T=b32                                   | d a b c     | @permuted_bytes($a, $b, $c)
shf L=l,r M=wrap,clamp T=b32                 | d a b c     | @funnel_$L_$M($a, $b, $c)
shl T=b16,b32,b64                            | d a b:u32   | @shifted_left($a, $b)
shr T=b16,b32,b64,%INT                       | d a b:u32   | @shifted_right($a, $b)
bfe T=%WORD                                  | d a b:u32 c:u32 | @bit_field($a, $b, $c)
bfi T=b32,b64                                | d a b c:u32 e:u32 | @with_bit_field($a, $b, $c, $e)
popc T=b32,b64                               | d:u32 a     | @ones($a)
clz T=b32,b64                                | d:u32 a     | @leading_zeros($a)
brev T=b32,b64                               | d a         | @reversed($a)
dp4a T=u32,s32 U=u32,s32                     | d:s32 a b:U c:s32 | @dot_of_4($a, $b, $c)
vabsdiff4 T=u32 (u32) (u32) A=[add]          | d a b c     | @differences_of_4u$A($a, $b, $c)
vabsdiff4 T=u32,s32 (s32) (s32) A=[add]      | d a b c     | @differences_of_4s$A($a, $b, $c)
setp C=%COMPARE [ftz] T=%BITS,f16,bf16       | p a b       | @is_$C($a, $b)
setp C=%COMPARE O=and,or,xor [ftz] T=%BITS   | p a b c:pred | @both_$O(@is_$C($a, $b), $c)
selp T=%BITS                                 | d a b c:pred | $c ? $a : $b
ld [weak,relaxed,acquire,volatile] [%SCOPE] S=[%SPACE] [%CACHE]* T=%MEMORY | d [m:S] | @load<$T>($m)
ld [weak,relaxed,acquire,volatile] [%SCOPE] S=[%SPACE] [%CACHE]* (v2,v4) T=%MEMORY
    | {d} [m:S] | @load_all<$T>($m, {$d})
ld [weak] S=global [ca,cg,cs] nc [%CACHE]* T=%MEMORY | d [m:S] | @load_only<$T>($m)
ld [weak] S=global [ca,cg,cs] nc [%CACHE]* (v2,v4) T=%MEMORY | {d} [m:S] | @load_all_only<$T>($m, {$d})
ldu S=[global] T=%MEMORY                     | d [m:S]     | @load_only<$T>($m)
st F=[weak,relaxed,release,volatile] G=[%SCOPE] S=[%SPACE] [%CACHE]* T=%MEMORY
    | [m:S] a | @after$F(@in$G()), @store<$T>($m, $a)
st F=[weak,relaxed,release,volatile] G=[%SCOPE] S=[%SPACE] [%CACHE]* (v2,v4) T=%MEMORY
    | [m:S] {a} | @after$F(@in$G()), @store_all<$T>($m, {$a})
st async [weak] shared::cluster mbarrier::complete_tx::bytes T=b32,b64,%WORD,f32,f64
    | [m:shared] a [k:shared] | @store_and_tell<$T>($m, $a, $k)
st async [weak] shared::cluster mbarrier::complete_tx::bytes (v2,v4) T=b32,b64,%WORD,f32,f64
    | [m:shared] {a} [k:shared] | @store_all_and_tell<$T>($m, {$a}, $k)
atom F=[%ORDER] G=[%SCOPE] S=[%SPACE] O=add,min,max,and,or,xor,exch,inc,dec [noftz] [L2::cache_hint]
    T=b32,b64,u32,u64,s32,s64,f32,f64,%SHORT
    | d [m:S] a | (@after$F(@in$G()), @atomic_$O<$T>($m, $a, @in$G()))
atom F=[%ORDER] G=[%SCOPE] S=[%SPACE] cas T=b16,b32,b64
    | d [m:S] a b | (@after$F(@in$G()), @atomic_cas<$T>($m, $a, $b, @in$G()))
red F=[%ORDER] G=[%SCOPE] S=[%SPACE] O=add,min,max,and,or,xor,inc,dec [noftz] [L2::cache_hint]
    T=b32,b64,u32,u64,s32,s64,f32,f64,%SHORT
    | [m:S] a | @after$F(@in$G()), @atomic_$O<$T>($m, $a, @in$G())
red F=[%ORDER] G=[%SCOPE] S=[global] O=add,min,max [noftz] [L2::cache_hint] (v2,v4,v8) T=f32,%SHORT
    | [m:S] {a} | @after$F(@in$G()), @atomic_all_$O<$T>($m, {$a}, @in$G())
red F=[%ORDER] G=[%SCOPE] S=[global] (v2,v4,v8) T=f32,%SHORT [global] O=add,min,max [noftz] [L2::cache_hint]
    | [m:S] {a} | @after$F(@in$G()), @atomic_all_$O<$T>($m, {$a}, @in$G())
atom F=[%ORDER] G=[%SCOPE] S=[global] O=add,min,max [noftz] [L2::cache_hint] (v2,v4,v8) T=f32,%SHORT
    | {d} [m:S] {a} | @after$F(@in$G()), @atomic_each_$O<$T>($m, {$d}, {$a}, @in$G())
atom F=[%ORDER] G=[%SCOPE] S=[global] (v2,v4,v8) T=f32,%SHORT [global] O=add,min,max [noftz] [L2::cache_hint]
    | {d} [m:S] {a} | @after$F(@in$G()), @atomic_each_$O<$T>($m, {$d}, {$a}, @in$G())
prefetch [global,local] (L1,L2,L2::evict_last,L2::evict_normal) | [m] |
prefetch [const,param] tensormap             | [m]         |
prefetchu L1                                 | [m]         |
applypriority [global] L2::evict_normal      | [m] n:u32   |
createpolicy fractional [L2::evict_last,L2::evict_normal,L2::evict_first,L2::evict_unchanged]* T=b64
    | d a? | $T(0)
membar (cta,gl,sys)                          |             | @fence()
fence [%ORDER,%SCOPE,proxy,async,global,shared::cta,alias,mbarrier_init,shared::cluster]* |  | @fence()
fence proxy async::generic (acquire,release)
    (sync_restrict::shared::cta,sync_restrict::shared::cluster) cluster |  | @fence()
fence proxy tensormap::generic release %SCOPE |            | @fence()
fence proxy tensormap::generic acquire %SCOPE | [m] n:u32  | @fence()
griddepcontrol (launch_dependents,wait)      |             |
setmaxnreg (inc,dec) sync aligned u32        | n           |
bar [cta] sync [aligned]                     | a:u32       | @barrier_sync($a, 0)
bar [cta] sync [aligned]                     | a:u32 b:u32 | @barrier_sync($a, $b)
bar [cta] arrive [aligned]                   | a:u32 b:u32 | @barrier_arrive($a, $b)
barrier [cta] sync [aligned]                 | a:u32       | @barrier_sync($a, 0)
barrier [cta] sync [aligned]                 | a:u32 b:u32 | @barrier_sync($a, $b)
barrier [cta] arrive [aligned]               | a:u32 b:u32 | @barrier_arrive($a, $b)
bar warp sync                                | m:u32       | @warp_sync($m)
barrier cluster arrive [release,relaxed] [aligned] |       | ::kcu_cluster_arrive()
barrier cluster wait [acquire] [aligned]     |             | ::kcu_cluster_wait()
mapa S=shared::cluster T=u32,u64             | d a b:u32   | @map_address($a, $b)
mapa T=u64                                   | d a b:u32   | @map_pointer($a, $b)
getctarank shared::cluster T=u32,u64         | d:u32 a     | ::kcu_shared_rank($a)
activemask b32                               | d:u32       | ::kcu_converge(__COUNTER__)
elect sync                                   | d:u32|p m:u32 | @elect($d, $p, $m)
shfl sync M=up,down,bfly,idx T=b32           | d a b:u32 c:u32 m:u32 | @shuffle_$M($a, $b, $c, $m)
shfl sync M=up,down,bfly,idx T=b32           | d|p a b:u32 c:u32 m:u32 | @shuffle_$M($d, $p, $a, $b, $c, $m)
vote sync M=all,any,uni pred                 | p a:pred m:u32 | @vote_$M($a, $m)
vote sync ballot b32                         | d:u32 a:pred m:u32 | @ballot($a, $m)
match any sync T=b32,b64                     | d:u32 a m:u32 | @match($a, $m)
redux sync O=add,min,max,and,or,xor T=u32,s32,b32 | d a m:u32 | @reduce_$O($a, $m)
ldmatrix sync aligned m8n8 (x1,x2,x4) R=[trans] S=[%SHARED] b16 | {d} [m:S] | @load_matrices$R($m, {$d})
stmatrix sync aligned m8n8 (x1,x2,x4) R=[trans] S=[%SHARED] b16 | [m:S] {a} | @store_matrices$R($m, {$a})
movmatrix sync aligned m8n8 trans b16        | d:b32 a:b32 | @transposed($a)
mma sync aligned M=m16n8k8,m16n8k16 row col D=f16,f32 A=f16 f16 C=f16,f32
    | {d} {a} {b} {c} | @mma_$M<$A, $A, $C, $D>({$d}, {$a}, {$b}, {$c})
mma sync aligned M=m16n8k8,m16n8k16 row col D=f32 A=bf16 bf16 f32
    | {d} {a} {b} {c} | @mma_$M<$A, $A, $D, $D>({$d}, {$a}, {$b}, {$c})
mma sync aligned M=m16n8k4,m16n8k8 row col D=f32 tf32 tf32 f32
    | {d} {a} {b} {c} | @mma_$M<@tf32, @tf32, $D, $D>({$d}, {$a}, {$b}, {$c})
mma sync aligned M=m16n8k16,m16n8k32 row col [satfinite] D=s32 A=u8,s8 B=u8,s8 s32
    | {d} {a} {b} {c} | @mma_$M<$A, $B, $D, $D>({$d}, {$a}, {$b}, {$c})
mma sync aligned M=m16n8k16,m16n8k32 row col [kind::f8f6f4] D=f16,f32 A=%FP8 B=%FP8 C=f16,f32
    | {d} {a} {b} {c} | @mma_$M<@$A, @$B, $C, $D>({$d}, {$a}, {$b}, {$c})
wgmma fence sync aligned                     |             | @wgmma_fence()
wgmma commit_group sync aligned              |             | @wgmma_commit()
wgmma wait_group sync aligned                | n:u32       | @wgmma_wait($n)
wgmma mma_async sync aligned M=%M64K16 D=f16,f32 A=f16 f16 | {d} a:u64 b:u64 s:pred e:s32 f:s32 g:s32 h:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, $a, $b, $s, $e, $f, $g, $h)
wgmma mma_async sync aligned M=%M64K16 D=f16,f32 A=f16 f16 | {d} {a} b:u64 s:pred e:s32 f:s32 h:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, {$a}, $b, $s, $e, $f, $h)
wgmma mma_async sync aligned M=%M64K16 D=f32 A=bf16 bf16 | {d} a:u64 b:u64 s:pred e:s32 f:s32 g:s32 h:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, $a, $b, $s, $e, $f, $g, $h)
wgmma mma_async sync aligned M=%M64K16 D=f32 A=bf16 bf16 | {d} {a} b:u64 s:pred e:s32 f:s32 h:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, {$a}, $b, $s, $e, $f, $h)
wgmma mma_async sync aligned M=%M64K8 D=f32 A=tf32 tf32 | {d} a:u64 b:u64 s:pred e:s32 f:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, $a, $b, $s, $e, $f)
wgmma mma_async sync aligned M=%M64K8 D=f32 A=tf32 tf32 | {d} {a} b:u64 s:pred e:s32 f:s32
    | @wgmma<@$M, @factor_$A, @factor_$A, @sum_$D>({$d}, {$a}, $b, $s, $e, $f)
wgmma mma_async sync aligned M=%M64K32 D=f16,f32 A=%FP8 B=%FP8 | {d} a:u64 b:u64 s:pred e:s32 f:s32
    | @wgmma<@$M, @factor_$A, @factor_$B, @sum_$D>({$d}, $a, $b, $s, $e, $f)
wgmma mma_async sync aligned M=%M64K32 D=f16,f32 A=%FP8 B=%FP8 | {d} {a} b:u64 s:pred e:s32 f:s32
    | @wgmma<@$M, @factor_$A, @factor_$B, @sum_$D>({$d}, {$a}, $b, $s, $e, $f)
wgmma mma_async sync aligned M=%M64INT L=[satfinite] D=s32 A=%BYTE B=%BYTE | {d} a:u64 b:u64 s:pred
    | @wgmma<@$M, @factor_$A, @factor_$B, @sum_$D$L>({$d}, $a, $b, $s)
wgmma mma_async sync aligned M=%M64INT L=[satfinite] D=s32 A=%BYTE B=%BYTE | {d} {a} b:u64 s:pred
    | @wgmma<@$M, @factor_$A, @factor_$B, @sum_$D$L>({$d}, {$a}, $b, $s)
cp async (ca,cg) [%SHARED] global [L2::cache_hint,L2::64B,L2::128B,L2::256B]*
    | [d:shared] [s] n:u32 | @copy_async($d, $s, $n, $n)
cp async (ca,cg) [%SHARED] global [L2::cache_hint,L2::64B,L2::128B,L2::256B]*
    | [d:shared] [s] n:u32 z:u32 | @copy_async($d, $s, $n, $z)
cp async commit_group                        |             | @commit_copies()
cp async wait_group                          | n:u32       | @wait_copies($n)
cp async wait_all                            |             | @wait_copies(~0u)
cp async mbarrier arrive N=[noinc] S=[%SHARED] b64 | [m:S] | @copies_arrive$N($m)
cp async bulk (shared::cluster,shared::cta) global mbarrier::complete_tx::bytes [L2::cache_hint]
    | [d:shared] [s] n:u32 [m:shared] | @bulk_to_shared($d, $s, $n, $m)
cp async bulk shared::cluster global mbarrier::complete_tx::bytes multicast::cluster [L2::cache_hint]
    | [d:shared] [s] n:u32 [m:shared] k:u16 | @bulk_to_many($d, $s, $n, $m, $k)
cp async bulk shared::cluster shared::cta mbarrier::complete_tx::bytes
    | [d:shared] [s:shared] n:u32 [m:shared] | @bulk_to_shared($d, $s, $n, $m)
cp async bulk global shared::cta bulk_group [L2::cache_hint]
    | [d] [s:shared] n:u32 | @bulk_to_global($d, $s, $n)
cp async bulk commit_group                   |             | @commit_bulk()
cp async bulk wait_group [read]              | n:u32       | @wait_bulk($n)
cp async bulk prefetch L2 global [L2::cache_hint] | [m] n:u32 | @bulk_prefetch($m, $n)
cp async bulk tensor %AXES (shared::cluster,shared::cta) global [tile] mbarrier::complete_tx::bytes
    [L2::cache_hint]
    | [d:shared] [m,{c}] [b:shared] | @box_load($d, $m, {$c}, $b)
cp async bulk tensor %AXES shared::cluster global [tile] mbarrier::complete_tx::bytes multicast::cluster
    [L2::cache_hint]
    | [d:shared] [m,{c}] [b:shared] k:u16 | @box_load_to_many($d, $m, {$c}, $b, $k)
cp async bulk tensor %AXES global shared::cta [tile] bulk_group [L2::cache_hint]
    | [m,{c}] [s:shared] | @box_store($m, {$c}, $s)
cp reduce async bulk tensor %AXES global shared::cta O=add,min,max,inc,dec,and,or,xor [tile] bulk_group
    [L2::cache_hint]
    | [m,{c}] [s:shared] | @box_reduce_$O($m, {$c}, $s)
cp async bulk prefetch tensor %AXES L2 global [tile] [L2::cache_hint] | [m,{c}] |
mbarrier init S=[%SHARED] b64                | [m:S] n:u32 | @barrier_init($m, $n)
mbarrier inval S=[%SHARED] b64               | [m:S]       | @barrier_inval($m)
mbarrier arrive [release,relaxed] [cta,cluster] S=[%SHARED] b64 | d:b64 [m:S] | @arrive($m, 1, 0)
mbarrier arrive [release,relaxed] [cta,cluster] S=[%SHARED] b64 | d:b64 [m:S] n:u32 | @arrive($m, $n, 0)
mbarrier arrive expect_tx [release,relaxed] [cta,cluster] S=[%SHARED] b64
    | d:b64 [m:S] n:u32 | @arrive($m, 1, $n)
mbarrier arrive_drop [release,relaxed] [cta,cluster] S=[%SHARED] b64 | d:b64 [m:S] | @arrive_and_drop($m)
mbarrier expect_tx [relaxed] [cta,cluster] S=[%SHARED] b64 | [m:S] n:u32 | @expect_bytes($m, $n)
mbarrier complete_tx [relaxed] [cta,cluster] S=[%SHARED] b64 | [m:S] n:u32 | @complete_bytes($m, $n)
mbarrier test_wait [acquire,relaxed,cta,cluster]* S=[%SHARED] b64 | p [m:S] a:b64 | @phase_over($m, $a)
mbarrier test_wait parity [acquire,relaxed,cta,cluster]* S=[%SHARED] b64
    | p [m:S] a:u32 | @parity_over($m, $a)
mbarrier try_wait [acquire,relaxed,cta,cluster]* S=[%SHARED] b64
    | p [m:S] a:b64 | @wait_phase($m, $a)
mbarrier try_wait parity [acquire,relaxed,cta,cluster]* S=[%SHARED] b64
    | p [m:S] a:u32 | @wait_parity($m, $a)
bra [uni]                                    | label       |
"""

# Allowed, but not emulated.
NOT_EMULATED = """
bfind bmsk discard dp2a fns mad24 madc mul24 set slct szext testp tex tld4 vabsdiff vabsdiff2 vadd vadd2 vadd4
vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wmma
"""

# Why the others that a reader may look for are refused.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("nanosleep", "pmevent", "trap", "brkpt"), "stops or delays a thread"),
    **dict.fromkeys(("call", "ret", "exit", "brx"), "leaves the asm statement"),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "moves the stack"),
    "tcgen05": "reaches tensor memory, which keeps its contents from launch to launch",
}

# Special registers for the time, the SM, a position on it, or a profiler's counters (without the %).
REFUSED_REGISTERS = (
    "clock", "globaltimer", "pm", "smid", "nsmid", "gridid", "envreg", "current_graph", "warpid", "nwarpid",
)  # fmt: skip

# Those that the emulator has, as C++.
SPECIAL_REGISTERS: Mapping[str, str] = {
    **{f"%tid.{axis}": f"::threadIdx.{axis}" for axis in "xyz"},
    **{f"%ntid.{axis}": f"::blockDim.{axis}" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"::blockIdx.{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"::gridDim.{axis}" for axis in "xyz"},
    **{f"%cluster_ctaid.{axis}": f"::kcu_cluster_index.{axis}" for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": f"::kcu_cluster_dim.{axis}" for axis in "xyz"},
    **{f"%clusterid.{axis}": f"(::blockIdx.{axis} / ::kcu_cluster_dim.{axis})" for axis in "xyz"},
    **{f"%nclusterid.{axis}": f"(::gridDim.{axis} / ::kcu_cluster_dim.{axis})" for axis in "xyz"},
    "%cluster_ctarank": "::kcu_shared_rank(0)",
    "%cluster_nctarank": "::kcu_ptx::cluster_blocks()",
    "%laneid": "::kcu_lane",
    "%warpid": "::kcu_ptx::warp_number()",
    "%lanemask_eq": "(1u << ::kcu_lane)",
    "%lanemask_lt": "((1u << ::kcu_lane) - 1)",
    "%lanemask_le": "((2u << ::kcu_lane) - 1)",
    "%lanemask_gt": "~((2u << ::kcu_lane) - 1)",
    "%lanemask_ge": "~((1u << ::kcu_lane) - 1)",
    "%dynamic_smem_size": "unsigned(::kcu_dynamic_bytes)",
    "WARP_SZ": "32",
}
