/* Reads lines, with libedit if a person types them, and lists what can be completed. */
#include "line_reader.h"

#include "clean.h"
#include "signals.h"
#include "terminal.h"

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void candidates_add(struct candidates *c, const char *name, const char *end) {
    if (strncmp(name, c->typed, c->length) != 0)
        return;
    if (c->n == c->capacity) {
        size_t capacity = 2 * c->capacity + 16;
        char **names = reallocarray(c->names, capacity, sizeof *names);
        if (!names)
            return;
        c->names = names;
        c->capacity = capacity;
    }
    if (asprintf(&c->names[c->n], "%s%s", name, end) >= 0)
        c->n++;
}

/* Adds a file of the folder, whose path, `folder`, ends with a slash or is empty. */
static void add_file(struct candidates *c, const char *folder, const char *name) {
    struct stat status;
    char *path;
    const char *typed = c->typed + strlen(folder);
    bool hidden = name[0] == '.' && c->typed + c->length == typed; /* only if the . was typed */
    if (hidden || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        asprintf(&path, "%s%s", folder, name) < 0)
        return;
    bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    candidates_add(c, path, is_folder ? "/" : "");
    free(path);
}

void candidates_add_files(struct candidates *c) {
    const char *slash = memrchr(c->typed, '/', c->length);
    char *folder = strndup(c->typed, slash ? (size_t)(slash + 1 - c->typed) : 0);
    DIR *directory = folder ? opendir(*folder ? folder : ".") : NULL;
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        add_file(c, folder, entry->d_name);
    if (directory)
        closedir(directory);
    free(folder);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t candidates_common(struct candidates *c) {
    if (c->n == 0)
        return 0;
    qsort(c->names, c->n, sizeof *c->names, compare);
    const char *first = c->names[0], *last = c->names[c->n - 1];
    size_t n = 0;
    while (first[n] && first[n] == last[n])
        n++;
    while (n > 0 && first[n] && ((unsigned char)first[n] & 0xc0) == 0x80)
        n--; /* no part of a character */
    return n;
}

void candidates_free(struct candidates *c) {
    for (size_t i = 0; i < c->n; i++)
        free(c->names[i]);
    free(c->names);
    *c = (struct candidates){0};
}

/* ---- The typed line -------------------------------------------------------------------- */

enum { HISTORY_LINES = 1000 };

/* The stream that shows the typed line without mixing it with the text. */
static FILE *shown_on(void) {
    return isatty(STDERR_FILENO) ? stderr : isatty(STDOUT_FILENO) ? stdout : NULL;
}

static char *prompt(EditLine *edit) {
    struct line_reader *reader;
    static char text[64];
    el_get(edit, EL_CLIENTDATA, &reader);
    snprintf(text, sizeof text, "%s", reader->prompt);
    return text;
}

/* ---- Tab ---------------------------------------------------------------------------------- */

/* Shows the names below the line. */
static void show_candidates(const struct candidates *candidates) {
    enum { MOST = 100 };
    fputc('\n', shown_on());
    for (size_t i = 0; i < candidates->n && i < MOST; i++) {
        clean_line(candidates->names[i]);
        fprintf(shown_on(), "%s%s", i > 0 ? "  " : "", candidates->names[i]);
    }
    fprintf(shown_on(), "%s\n", candidates->n > MOST ? "  ..." : "");
}

/* Adds to the line what all candidates have in common; if that is nothing, shows them. */
static unsigned char complete(EditLine *edit, int key) {
    struct line_reader *reader;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &reader);
    const LineInfo *line = el_line(edit);
    char *typed = strndup(line->buffer, (size_t)(line->cursor - line->buffer));
    if (!typed || !reader->complete) {
        free(typed);
        return CC_ERROR;
    }
    struct candidates candidates = {.typed = typed, .length = strlen(typed)};
    unsigned char result = CC_ERROR;
    reader->complete(&candidates);
    size_t common = candidates_common(&candidates);
    if (common > candidates.length) {
        candidates.names[0][common] = '\0';
        bool inserted = el_insertstr(edit, candidates.names[0] + candidates.length) == 0;
        result = inserted ? CC_REFRESH : CC_ERROR;
    } else if (candidates.n > 1) {
        show_candidates(&candidates);
        result = CC_REDISPLAY;
    }
    candidates_free(&candidates);
    free(typed);
    return result;
}

/* ---- Pasting ------------------------------------------------------------------------------ */

/* A terminal that was asked to puts these around what is pasted, so that its line ends do not end
 * the typed line. */
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_BEGINS "\033[200~"
static const wchar_t paste_ends[] = L"\033[201~";
enum { PASTE_ENDS = sizeof paste_ends / sizeof *paste_ends - 1 };

/* Appends what is pasted, as wide characters, without its end mark.  False when reading fails, or
 * memory is short. */
static bool read_paste(EditLine *edit, struct buffer *pasted) {
    wchar_t c;
    size_t matched = 0; /* of the end mark; only its first character is an escape */
    while (matched < PASTE_ENDS) {
        if (el_wgetc(edit, &c) != 1)
            return false;
        matched = c == paste_ends[matched] ? matched + 1 : c == paste_ends[0];
        if (c == L'\r') /* so libedit lets the terminal's driver send a line end */
            c = L'\n';
        if (c != L'\0' && !buffer_append(pasted, &c, sizeof c))
            return false;
    }
    pasted->length -= PASTE_ENDS * sizeof *paste_ends;
    return true;
}

/* Puts what is pasted into the typed line, line ends and all, which Enter then ends. */
static unsigned char paste(EditLine *edit, int key) {
    struct buffer pasted = {0};
    const wchar_t end = L'\0';
    (void)key;
    unsigned char result = CC_EOF;
    if (read_paste(edit, &pasted) && buffer_append(&pasted, &end, sizeof end)) {
        const wchar_t *text = (const wchar_t *)(const void *)pasted.data;
        result = *text == L'\0' || el_winsertstr(edit, text) == 0 ? CC_REFRESH : CC_ERROR;
    }
    buffer_free(&pasted);
    return result;
}

/* Only emacs's keys: in vi's the mark would first leave the mode in which text is inserted. */
static void bind_paste(struct line_reader *reader) {
    const char *keys = NULL, *terminal = getenv("TERM");
    int edits = 0;
    el_get(reader->edit, EL_EDITOR, &keys);
    el_get(reader->edit, EL_EDITMODE, &edits);
    if (!edits || !keys || strcmp(keys, "emacs") != 0)
        return;
    el_wset(reader->edit, EL_ADDFN, L"paste", L"insert what a terminal pastes", paste);
    el_set(reader->edit, EL_BIND, PASTE_BEGINS, "paste", NULL);
    reader->asks_for_paste = terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

/* Asks the terminal for the marks, only while a line is typed: so no way to end leaves them on. */
static void mark_pastes(const struct line_reader *reader, bool on) {
    if (!reader->asks_for_paste)
        return;
    fputs(on ? PASTE_ON : PASTE_OFF, shown_on());
    fflush(shown_on());
}

/* ---- The history's file ------------------------------------------------------------------- */

/* Makes every folder of the path. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* The path that the XDG Base Directory Specification gives. */
static char *find_history(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = -1;
    if (state && state[0] == '/')
        length = asprintf(&path, "%s/txl/history", state);
    else if (home && home[0] == '/')
        length = asprintf(&path, "%s/.local/state/txl/history", home);
    return length < 0 ? NULL : path;
}

/* A history is not essential, so a failure is only a note. */
static void save_history(struct line_reader *reader) {
    HistEvent event;
    char *temporary;
    make_folders(reader->history_path);
    if (asprintf(&temporary, "%s.tmp-%ld", reader->history_path, (long)getpid()) < 0)
        return;
    if (history(reader->history, &event, H_SAVE, temporary) < 0 ||
        rename(temporary, reader->history_path) != 0) {
        terminal_note("%s: the history cannot be kept: %s", reader->history_path, strerror(errno));
        unlink(temporary);
    }
    free(temporary);
}

/* ---- The reader --------------------------------------------------------------------------- */

/* Typed text may be UTF-8, whatever the locale; the rest of the locale does not matter. */
static void use_utf8(void) {
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
}

bool line_reader_open(struct line_reader *reader) {
    HistEvent event;
    *reader = (struct line_reader){.prompt = "> "};
    FILE *shown = shown_on();
    if (!isatty(STDIN_FILENO) || !shown)
        return input_open(&reader->input, "-");
    use_utf8();
    reader->history = history_init();
    reader->edit = reader->history ? el_init("txl", stdin, shown, stderr) : NULL;
    if (!reader->edit) {
        terminal_error("the terminal cannot be used for typing");
        line_reader_close(reader);
        return false;
    }
    history(reader->history, &event, H_SETSIZE, HISTORY_LINES);
    history(reader->history, &event, H_SETUNIQUE, 1);
    el_set(reader->edit, EL_CLIENTDATA, reader);
    el_set(reader->edit, EL_PROMPT, prompt);
    el_set(reader->edit, EL_EDITOR, "emacs");
    /* el_set would copy both strings and never free them. */
    el_wset(reader->edit, EL_ADDFN, L"complete", L"complete a command or a file's name", complete);
    el_set(reader->edit, EL_BIND, "^I", "complete", NULL);
    el_set(reader->edit, EL_HIST, history, reader->history);
    el_source(reader->edit, NULL); /* the user's ~/.editrc */
    bind_paste(reader);
    reader->history_path = find_history();
    if (reader->history_path)
        history(reader->history, &event, H_LOAD, reader->history_path);
    return true;
}

void line_reader_close(struct line_reader *reader) {
    if (reader->edit) {
        if (reader->history_path)
            save_history(reader);
        el_end(reader->edit);
    }
    if (reader->history)
        history_end(reader->history);
    free(reader->history_path);
    buffer_free(&reader->text);
    *reader = (struct line_reader){0};
}

static const char *type_line(struct line_reader *reader, size_t *length) {
    int n;
    mark_pastes(reader, true);
    signals_end_reads(true);
    const char *line = el_gets(reader->edit, &n);
    signals_end_reads(false);
    mark_pastes(reader, false);
    if (!line || n <= 0) {
        fputc('\n', shown_on());
        return NULL;
    }
    *length = (size_t)n;
    if (line[n - 1] == '\n')
        --*length;
    return line;
}

static const char *next_typed(struct line_reader *reader, size_t *length) {
    HistEvent event;
    const char *line = type_line(reader, length);
    if (line && *length > 0)
        history(reader->history, &event, H_ENTER, line);
    return line;
}

bool line_reader_ask(struct line_reader *reader, const char *question) {
    const char *usual = reader->prompt;
    size_t length;
    reader->prompt = question;
    const char *line = type_line(reader, &length);
    reader->prompt = usual;
    return line && length > 0 && (line[0] == 'y' || line[0] == 'Y');
}

/* Returns the length of the text's first line without its end, reading on until it is there; -1 at
 * the input's end, after a signal or a failure. */
static ptrdiff_t read_line(struct line_reader *reader) {
    char block[4096];
    struct buffer *text = &reader->text;
    size_t searched = 0;
    for (;;) {
        const char *end = text->length > searched
                              ? memchr(text->data + searched, '\n', text->length - searched)
                              : NULL;
        if (end)
            return end - text->data;
        searched = text->length;
        ssize_t n = input_read(&reader->input, block, sizeof block);
        if (n == 0 && text->length > 0 && !signals_stopped())
            return (ptrdiff_t)text->length;
        reader->failed = n < 0;
        if (n <= 0)
            return -1;
        if (!buffer_append(text, block, (size_t)n)) {
            terminal_error("out of memory");
            reader->failed = true;
            return -1;
        }
    }
}

const char *line_reader_next(struct line_reader *reader, size_t *length) {
    if (reader->edit)
        return next_typed(reader, length);
    buffer_drop(&reader->text, reader->line);
    reader->line = 0;
    ptrdiff_t n = read_line(reader);
    if (n < 0)
        return NULL;
    *length = (size_t)n;
    reader->line = *length < reader->text.length ? *length + 1 : *length;
    return reader->text.data;
}
