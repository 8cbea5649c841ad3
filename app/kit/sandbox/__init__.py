"""Restricts a process before it reads untrusted data: files, network, other processes, rare system calls.

Each part uses only the kernel, needs no root, and reports whether the kernel supports it: `namespaces` for an empty
network and a private view of processes, `landlock` for files, `seccomp` for system calls that computations never use.
Only a process with a single thread can be confined as a whole: call them right after a fork.

It uses ctypes, because it is a dozen calls: the libraries for Landlock are young and do not cover the other parts, and
those for seccomp need the distribution's libseccomp.
"""
