/* Every word of calls.h once, on the functions of library.cc. */
#include "calls.h"

enum { ADD, WAIT, RECURSE, THROW, JUMP, EIGHT, ENGINE, HOLD, READ };

int enter_add(struct pt_regs *ctx) { return call_enter_with(ctx, ADD, SW_ARG3(ctx), SW_ARG1(ctx), 0); }
int leave_add(struct pt_regs *ctx) { return call_leave_result(ctx, ADD, (s64)SW_RETVAL(ctx) < 0); }
int enter_wait(struct pt_regs *ctx) { return call_enter_with(ctx, WAIT, 0, (u32)SW_ARG1(ctx), 42); }
int leave_wait(struct pt_regs *ctx) { return call_leave(ctx, WAIT); }
int enter_recurse(struct pt_regs *ctx) { return call_enter(ctx, RECURSE); }
int leave_recurse(struct pt_regs *ctx) { return call_leave(ctx, RECURSE); }
int enter_throw(struct pt_regs *ctx) { return call_enter(ctx, THROW); }
int leave_throw(struct pt_regs *ctx) { return call_leave(ctx, THROW); }
int enter_jump(struct pt_regs *ctx) { return call_enter(ctx, JUMP); }
int leave_jump(struct pt_regs *ctx) { return call_leave(ctx, JUMP); }
int enter_hold(struct pt_regs *ctx) { return call_enter(ctx, HOLD); }
int leave_hold(struct pt_regs *ctx) { return call_leave(ctx, HOLD); }
int enter_read(struct pt_regs *ctx) { return call_enter(ctx, READ); }
int leave_read(struct pt_regs *ctx) { return call_leave_result(ctx, READ, (s64)SW_RETVAL(ctx) < 0); }
int count_engine(struct pt_regs *ctx) { return call_count(ctx, ENGINE, 0); }
int count_eight(struct pt_regs *ctx)
{
	u64 last = 0;

#if defined(__TARGET_ARCH_arm64)
	last = ctx->regs[7];
#else
	SW_STACK_ARG(&last, ctx, 1);
#endif
	return call_observe(ctx, EIGHT, SW_ARG6(ctx) * 10 + last, 1);
}
