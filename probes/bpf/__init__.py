"""Loading BPF programs, whatever compiles them.

- loader: the one interface that probes use
- compiler: the only module that knows bcc; kernel/: stub headers, so that none are needed
- words: the dialect of our programs; syscall, maps, attachment, events: plain system calls
- tracepoint, tracefs: layouts and attachments read from the running kernel
- capabilities, errors: what this process may do, and why a probe cannot run
"""
