"""What a process gives up before it touches what a stranger wrote: files, network, other processes, rare system calls.

Each part asks the kernel alone, needs no root, and says whether the kernel agreed: `namespaces` for an empty network
and a view of its own processes, `landlock` for files, `syscalls` for what a computation never calls. Only a process
with a single thread can be confined as a whole: call them right after a fork.

Written over ctypes, for it is a dozen calls: the libraries for Landlock are young and know nothing of the other parts,
and those for seccomp need libseccomp of the distribution.
"""
