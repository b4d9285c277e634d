/* Files within the program, put there by the assembler. */
#ifndef CLI_EMBED_H
#define CLI_EMBED_H

/* const char NAME[]: the text of the file at `path` in cli/. */
#define EMBED_TEXT(name, path)                                                                     \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "\n" #name ":\n"                                                      \
            ".incbin \"" EMBEDDED_FOLDER "/" path "\"\n"                                           \
            ".byte 0\n"                                                                            \
            ".previous\n")

#endif
