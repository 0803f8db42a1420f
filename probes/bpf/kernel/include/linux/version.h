/* The loader passes LINUX_VERSION_CODE of the running kernel. */
#ifndef STALLWATCH_LINUX_VERSION_H
#define STALLWATCH_LINUX_VERSION_H
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#ifndef LINUX_VERSION_CODE
#define LINUX_VERSION_CODE KERNEL_VERSION(4, 17, 0)
#endif
#endif
