"""A system call filter for processes that run device code natively: no new processes, no sockets, no access
to other processes or the kernel.

Landlock restricts file access (`kcurate.judge.workers.inside.landlock`); this closes what it leaves open. The
filter needs no privileges, is permanent, and applies to all later threads; a refused call fails with EPERM.
Source: Linux kernel documentation, "Seccomp BPF"; numbers: asm/unistd_64.h (x86-64) and asm-generic/unistd.h
(aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
ALLOW, KILL_PROCESS, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
# Classic BPF: load a word of seccomp_data, jump if equal, jump if greater or equal, return.
LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_SECOND_ARGUMENT = 0, 4, 24  # its low half, on little-endian machines
# x86-64 processes may also use the call numbers of the x32 interface, which have this bit set.
X32_BIT = 0x40000000

# name: (x86-64, aarch64); None if an architecture lacks the call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # new processes and programs
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435), "execve": (59, 221),
    "execveat": (322, 281),
    # sockets
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    # other processes: memory, signals, groups, priorities, limits
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setpgid": (109, 154),
    "setsid": (112, 157), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "prlimit64": (302, 261),
    # namespaces and file systems
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265),
    # communication between processes, and keys
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # parts of the kernel with a large attack surface
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_setup": (206, 0),
    # the state of the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161),
    "setdomainname": (171, 162), "syslog": (103, 116), "personality": (135, 92),
    # watching files
    "inotify_init1": (294, 26), "fanotify_init": (300, 262),
}  # fmt: skip
# The numbers of a call, and its refused commands. These have the kernel signal a process when a file becomes
# readable: F_SETOWN, F_SETSIG, F_SETOWN_EX (asm-generic/fcntl.h), FIOSETOWN, SIOCSPGRP.
BY_ARGUMENT: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "fcntl": ((72, 25), (8, 10, 15)),
    "ioctl": ((16, 29), (0x8901, 0x8902)),
}
# AUDIT_ARCH_* from linux/audit.h, and the column of `REFUSED`.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def program(machine: str) -> bytes | None:
    """The filter as classic BPF; None for an unsupported machine."""
    if machine not in _MACHINES:
        return None
    architecture, column = _MACHINES[machine]
    numbers = sorted({number for pair in REFUSED.values() if (number := pair[column]) is not None})
    checks = [(IF_EQUAL, number) for number in numbers]
    if machine == "x86_64":
        checks.insert(0, (IF_AT_LEAST, X32_BIT))
    head = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, AT_NUMBER),
    ]
    # jumps count the lines skipped: another call goes on after this block, a refused command to its REFUSE
    for numbers_of_call, commands in BY_ARGUMENT.values():
        head += [
            (IF_EQUAL, 0, 3 + len(commands), numbers_of_call[column]),
            (LOAD, 0, 0, AT_SECOND_ARGUMENT),
            *((IF_EQUAL, len(commands) - at, 0, command) for at, command in enumerate(commands)),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, REFUSE),
        ]
    body = [(code, len(checks) - i, 0, value) for i, (code, value) in enumerate(checks)]  # to the last REFUSE
    tail = [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("=HBBI", *line) for line in (*head, *body, *tail))


def restrict() -> bool:
    """Apply the filter to this process, permanently. False: not supported on this machine."""
    code = program(platform.machine())
    if code is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    # eight bytes per instruction; the kernel copies them
    filter_program = _Program(len(code) // 8, code)
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program), 0, 0) == 0)
