/* Symbols that mislead about what is code. x86-64. */
 .text
 .globl constants
 .type constants,@function
constants:                      /* its size includes what it only reads */
 lea 1f(%rip),%rax
 mov (%rax),%rax
 ret
1: .quad 0xc3c3c3c3c3c3c3c3
 .size constants,.-constants

 .globl whole
 .type whole,@function
whole:
 mov $0x11223344,%eax
 ret
 .size whole,.-whole
 .globl middle                  /* begins inside an instruction of `whole` */
 .type middle,@function
 .set middle, whole+2
 .size middle,4

 .globl shifted
 .type shifted,@function
shifted:                        /* a byte that is jumped over: read on from it, all is otherwise */
 jmp 1f
 .byte 0x48
1: mov $0x00c3c3c3,%eax
 mov $0xc3c3c3c3,%ecx
 add %ecx,%eax
 ret
 .size shifted,.-shifted

 .section .rodata
 .globl table                   /* a "function" that is data */
 .type table,@function
table: .quad 0x1122334455667788
 .size table,8
 .section .note.GNU-stack,"",@progbits
