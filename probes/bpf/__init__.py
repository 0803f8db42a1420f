"""Loading BPF programs, whatever compiles them.

- loader: the one interface that probes use; builder: what a way of building must hand over
- bcc: the ways that there are; compiler: the child process, and compile_child what runs in it;
  passing: their messages; headers, kernel/: stub headers, so that none are needed
- words: the dialect of our programs; syscall, maps, attachment, events: plain system calls
- libbpf: the C library that reads rings
- tracepoint, tracefs: layouts and attachments read from the running kernel
- capabilities, errors: what this process may do, and why a probe cannot run
"""
