/* The one option that bcc's headers ask for. */
#define CONFIG_BPF_SYSCALL 1
