/* User registers as a uprobe sees them: arch/arm64/include/uapi/asm/ptrace.h. */
#ifndef STALLWATCH_ASM_PTRACE_H
#define STALLWATCH_ASM_PTRACE_H
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#endif
