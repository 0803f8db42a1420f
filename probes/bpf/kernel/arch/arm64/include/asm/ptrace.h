/*
 * User registers as a uprobe sees them: struct user_pt_regs of
 * arch/arm64/include/uapi/asm/ptrace.h, with which the kernel's pt_regs begins.
 */
#ifndef STALLWATCH_ASM_PTRACE_H
#define STALLWATCH_ASM_PTRACE_H
struct pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};
#define user_pt_regs pt_regs
#endif
