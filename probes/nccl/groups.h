/* Groups of calls: an initialisation that is asked for in one is carried out at its end. */

int group_start(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread;

	thread = hit_thread(&key);
	if (thread)
		thread->groups += 1;
	return 0;
}

int group_end(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	struct thread *thread = hit_thread(&key);

	if (thread)
		thread->group_frame = SW_STACK_POINTER(ctx);
	return 0;
}

int leave_group_end(struct pt_regs *ctx)
{
	u64 key = bpf_get_current_pid_tgid();
	u32 result = SW_RETVAL(ctx);
	struct thread *thread = sw_lookup(threads, &key);
	struct pending_key slot = {};

	if (!thread || !thread->group_frame || thread->group_frame != SW_STACK_POINTER(ctx))
		return 0;
	thread->group_frame = 0;
	if (result >= RESULTS)
		return 0;
	if (thread->groups)
		thread->groups -= 1;
	if (thread->groups)
		return 0;
	slot.thread = key;
	for (int i = 0; i < MAX_PENDING; i++) {
		if (i >= thread->pending)
			break;
		slot.slot = i;
		struct pending *begun = sw_lookup(pending, &slot);
		if (!begun)
			break;
		struct pending copy = *begun;
		sw_delete(pending, &slot);
		finish(ctx, thread->owner, &copy, result);
	}
	if (result && result != RESULT_IN_PROGRESS && !thread->pending)
		failed(ctx, key, thread, OP_GROUP_END, result);
	thread->pending = 0;
	return 0;
}
