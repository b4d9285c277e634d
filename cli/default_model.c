/* The built-in model: a weights file in the program itself, used where it lies.  The assembler
 * embeds it, because compilers take too long for an array of megabytes.  It is aligned to a page,
 * like a file that is mapped. */
#include <stddef.h>

extern const unsigned char txl_default_model[];
extern const size_t txl_default_model_size;

__asm__(".section .rodata\n"
        ".balign 4096\n"
        ".global txl_default_model\n"
        "txl_default_model:\n"
        ".incbin \"" EMBEDDED_FOLDER "/default.txl\"\n"
        "1:\n"
        ".balign 8\n"
        ".global txl_default_model_size\n"
        "txl_default_model_size:\n"
        ".quad 1b - txl_default_model\n"
        ".previous\n");
