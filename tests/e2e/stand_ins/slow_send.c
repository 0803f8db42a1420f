/*
 * Preloaded into one rank: while the file SLOW_SEND_WHILE exists, whatever it sends on a socket is
 * SLOW_SEND_US late. Gloo sends by writev, NCCL and MPI by send and sendmsg as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void be_late(int fd)
{
	const char *file = getenv("SLOW_SEND_WHILE"), *late = getenv("SLOW_SEND_US");
	struct stat status;

	if (!file || !late || access(file, F_OK) || fstat(fd, &status))
		return;
	if (S_ISSOCK(status.st_mode))
		usleep(atoi(late));
}

ssize_t send(int fd, const void *buffer, size_t size, int flags)
{
	be_late(fd);
	return REAL(send)(fd, buffer, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	be_late(fd);
	return REAL(sendmsg)(fd, message, flags);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	be_late(fd);
	return REAL(write)(fd, buffer, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	be_late(fd);
	return REAL(writev)(fd, parts, count);
}
