/* Loads and does nothing: shows that programs can be loaded at all. */

int on_nothing(void *ctx)
{
	return 0;
}
