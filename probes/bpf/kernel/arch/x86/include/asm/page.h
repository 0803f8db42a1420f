/* bcc's headers size their buffers by it. */
#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif
