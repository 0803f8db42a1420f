/* User registers as a uprobe sees them: arch/x86/include/asm/ptrace.h, x86-64. */
#ifndef STALLWATCH_ASM_PTRACE_H
#define STALLWATCH_ASM_PTRACE_H
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#endif
