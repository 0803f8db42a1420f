/*
 * A user's own probes: enter_N, leave_N and count_N serve the N-th of them. What each takes is data,
 * in `custom_rules`, so that no program is written or changed for it.
 *
 * Why these hooks: entry and exits of the function that the user named, nothing else; a probe that
 * takes no time has no exits. One program per probe, because attach cookies need Linux 5.15. Linux
 * 4.18. Needs CAP_SYS_ADMIN for uprobes.
 */
#include "calls.h"

/* Values of a label's argument that have a name, and arguments that are taken: each is one more
 * comparison or sum in every call, so both are few. */
#define CUSTOM_NAMES 16
#define CUSTOM_ARGUMENTS 4

enum custom_width { CUSTOM_64, CUSTOM_U32, CUSTOM_S32 };

/* Slots of a probe: one per name of its label and one for all others, of calls first, then the same of
 * each argument. */
struct custom_rule {
	u32 slot;
	u32 names;
	u32 label_argument; /* 1 to 6; 0: the probe has no such label */
	u32 label_width;
	u64 values[CUSTOM_NAMES];
	u32 arguments[CUSTOM_ARGUMENTS]; /* 1 to 6; 0: no more */
	u32 widths[CUSTOM_ARGUMENTS];
};

/* One per probe; 32 of them are the programs below. */
SW_ARRAY(custom_rules, struct custom_rule, 32);

/* The barrier keeps each register a load of its own: the compiler would choose among addresses, and the
 * verifier takes no computed address in a context. */
#define CHOOSE(n)                            \
	do {                                 \
		u64 each = SW_ARG##n(ctx);   \
		asm volatile("" : "+r"(each)); \
		if (number == n)             \
			value = each;        \
	} while (0)

static __always_inline u64 custom_argument(struct pt_regs *ctx, u32 number, u32 width)
{
	u64 value = 0;

	CHOOSE(1);
	CHOOSE(2);
	CHOOSE(3);
	CHOOSE(4);
	CHOOSE(5);
	CHOOSE(6);
	if (width == CUSTOM_U32)
		return (u32)value;
	return width == CUSTOM_S32 ? (u64)(s64)(s32)value : value;
}

/* Which name of the label a call has; the number of names: none of them. */
static __always_inline u32 custom_name(struct pt_regs *ctx, struct custom_rule *rule)
{
	u32 name = rule->names;
	u64 value;

	if (!rule->label_argument)
		return name;
	value = custom_argument(ctx, rule->label_argument, rule->label_width);
#pragma unroll
	for (int i = 0; i < CUSTOM_NAMES; i++) {
		if (i < rule->names && rule->values[i] == value)
			name = i;
	}
	return name;
}

/* Takes the arguments that the rule names; which of its labels' names this call has. */
static __always_inline u32 custom_observe(struct pt_regs *ctx, struct custom_rule *rule)
{
	u32 name = custom_name(ctx, rule);
	u32 slot = rule->slot + name;

#pragma unroll
	for (int i = 0; i < CUSTOM_ARGUMENTS; i++) {
		slot += rule->names + 1;
		if (rule->arguments[i])
			call_observe(ctx, slot, custom_argument(ctx, rule->arguments[i], rule->widths[i]),
				     0);
	}
	return name;
}

static __always_inline int custom_enter(struct pt_regs *ctx, u32 number)
{
	struct custom_rule *rule = sw_lookup(custom_rules, &number);
	u32 name;

	if (!rule)
		return 0;
	name = custom_observe(ctx, rule);
	return call_enter_as(ctx, rule->slot + rule->names, rule->slot + name, 0, 0, 0);
}

static __always_inline int custom_leave(struct pt_regs *ctx, u32 number)
{
	struct custom_rule *rule = sw_lookup(custom_rules, &number);

	return rule ? call_leave(ctx, rule->slot + rule->names) : 0;
}

static __always_inline int custom_count(struct pt_regs *ctx, u32 number)
{
	struct custom_rule *rule = sw_lookup(custom_rules, &number);
	u32 name;

	if (!rule)
		return 0;
	name = custom_observe(ctx, rule);
	return call_count(ctx, rule->slot + name, 0);
}

/* One function each, since bcc gives each its section. */
#define ENTER(n) int enter_##n(struct pt_regs *ctx) { return custom_enter(ctx, n); }
#define LEAVE(n) int leave_##n(struct pt_regs *ctx) { return custom_leave(ctx, n); }
#define COUNT(n) int count_##n(struct pt_regs *ctx) { return custom_count(ctx, n); }

/* CUSTOM_PROBES: how many there are. */
#if CUSTOM_PROBES > 0
ENTER(0)
LEAVE(0)
COUNT(0)
#endif
#if CUSTOM_PROBES > 1
ENTER(1)
LEAVE(1)
COUNT(1)
#endif
#if CUSTOM_PROBES > 2
ENTER(2)
LEAVE(2)
COUNT(2)
#endif
#if CUSTOM_PROBES > 3
ENTER(3)
LEAVE(3)
COUNT(3)
#endif
#if CUSTOM_PROBES > 4
ENTER(4)
LEAVE(4)
COUNT(4)
#endif
#if CUSTOM_PROBES > 5
ENTER(5)
LEAVE(5)
COUNT(5)
#endif
#if CUSTOM_PROBES > 6
ENTER(6)
LEAVE(6)
COUNT(6)
#endif
#if CUSTOM_PROBES > 7
ENTER(7)
LEAVE(7)
COUNT(7)
#endif
#if CUSTOM_PROBES > 8
ENTER(8)
LEAVE(8)
COUNT(8)
#endif
#if CUSTOM_PROBES > 9
ENTER(9)
LEAVE(9)
COUNT(9)
#endif
#if CUSTOM_PROBES > 10
ENTER(10)
LEAVE(10)
COUNT(10)
#endif
#if CUSTOM_PROBES > 11
ENTER(11)
LEAVE(11)
COUNT(11)
#endif
#if CUSTOM_PROBES > 12
ENTER(12)
LEAVE(12)
COUNT(12)
#endif
#if CUSTOM_PROBES > 13
ENTER(13)
LEAVE(13)
COUNT(13)
#endif
#if CUSTOM_PROBES > 14
ENTER(14)
LEAVE(14)
COUNT(14)
#endif
#if CUSTOM_PROBES > 15
ENTER(15)
LEAVE(15)
COUNT(15)
#endif
#if CUSTOM_PROBES > 16
ENTER(16)
LEAVE(16)
COUNT(16)
#endif
#if CUSTOM_PROBES > 17
ENTER(17)
LEAVE(17)
COUNT(17)
#endif
#if CUSTOM_PROBES > 18
ENTER(18)
LEAVE(18)
COUNT(18)
#endif
#if CUSTOM_PROBES > 19
ENTER(19)
LEAVE(19)
COUNT(19)
#endif
#if CUSTOM_PROBES > 20
ENTER(20)
LEAVE(20)
COUNT(20)
#endif
#if CUSTOM_PROBES > 21
ENTER(21)
LEAVE(21)
COUNT(21)
#endif
#if CUSTOM_PROBES > 22
ENTER(22)
LEAVE(22)
COUNT(22)
#endif
#if CUSTOM_PROBES > 23
ENTER(23)
LEAVE(23)
COUNT(23)
#endif
#if CUSTOM_PROBES > 24
ENTER(24)
LEAVE(24)
COUNT(24)
#endif
#if CUSTOM_PROBES > 25
ENTER(25)
LEAVE(25)
COUNT(25)
#endif
#if CUSTOM_PROBES > 26
ENTER(26)
LEAVE(26)
COUNT(26)
#endif
#if CUSTOM_PROBES > 27
ENTER(27)
LEAVE(27)
COUNT(27)
#endif
#if CUSTOM_PROBES > 28
ENTER(28)
LEAVE(28)
COUNT(28)
#endif
#if CUSTOM_PROBES > 29
ENTER(29)
LEAVE(29)
COUNT(29)
#endif
#if CUSTOM_PROBES > 30
ENTER(30)
LEAVE(30)
COUNT(30)
#endif
#if CUSTOM_PROBES > 31
ENTER(31)
LEAVE(31)
COUNT(31)
#endif
