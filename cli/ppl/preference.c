/* Counts which condition of each item is likelier. */
#include "preference.h"

#include "cli/system/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* What is known of an item.  LEFT_OUT: it was named already. */
enum { HAS_A = 1, HAS_B = 2, WON = 4, TIED = 8, LEFT_OUT = 16, FLAG_BITS = 5 };

/* Before each name in the file. */
struct name_head {
    uint64_t line;
    size_t length;
};

/* A message shows this much of a name. */
enum { SHOWN = 80 };

bool preference_parse(struct preference *p, const char *text) {
    const char *comma = strchr(text, ',');
    if (!comma || comma == text || comma[1] == '\0' || strchr(comma + 1, ','))
        return false;
    p->a = text;
    p->n_a = (size_t)(comma - text);
    p->b = comma + 1;
    p->n_b = strlen(p->b);
    p->on = true;
    return p->n_a != p->n_b || memcmp(p->a, p->b, p->n_a) != 0;
}

static bool fail_names(void) {
    return terminal_error("temporary file of items: %s", strerror(errno));
}

/* ---- The table of items ------------------------------------------------------------------- */

static bool read_names(struct preference *p, void *out, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fileno(p->names), (char *)out + done, n - done, (off_t)(at + done));
        if (got == 0)
            errno = EIO;
        if (got == 0 || (got < 0 && errno != EINTR))
            return fail_names();
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static uint64_t place_of(const struct known_item *item) {
    return item->state >> FLAG_BITS;
}

/* Whether the item has the name; `*good` becomes false with the error printed. */
static bool has_name(struct preference *p, const struct known_item *item,
                     const struct own_value *name, bool *good) {
    struct name_head head;
    char part[512];
    uint64_t at = place_of(item);
    *good = read_names(p, &head, sizeof head, at);
    bool same = *good && head.length == name->length;
    for (size_t done = 0, n; same && done < name->length; done += n) {
        n = name->length - done < sizeof part ? name->length - done : sizeof part;
        *good = read_names(p, part, n, at + sizeof head + done);
        same = *good && memcmp(part, name->text + done, n) == 0;
    }
    return same;
}

static void fill_slot(struct preference *p, size_t item) {
    size_t slot = p->items[item].hash % p->n_slot;
    while (p->slots[slot])
        slot = (slot + 1) % p->n_slot;
    p->slots[slot] = (uint32_t)item + 1;
}

/* Makes room for one more item.  At most seven eighths of the slots are taken. */
static bool make_room(struct preference *p) {
    if (p->n == p->room) {
        size_t room = p->room + p->room / 8 + 64;
        struct known_item *items = realloc(p->items, room * sizeof *items);
        if (!items || room >= UINT32_MAX) {
            p->items = items ? items : p->items;
            return terminal_error("out of memory");
        }
        p->items = items;
        p->room = room;
    }
    if (p->n < p->n_slot / 8 * 7)
        return true;
    size_t n_slot = p->n_slot > 0 ? 2 * p->n_slot : 64;
    free(p->slots);
    p->slots = calloc(n_slot, sizeof *p->slots);
    p->n_slot = p->slots ? n_slot : 0;
    for (size_t i = 0; i < p->n && p->slots; i++)
        fill_slot(p, i);
    return p->slots || terminal_error("out of memory");
}

static bool write_name(struct preference *p, const struct own_value *name, uint64_t line) {
    const struct name_head head = {line, name->length};
    if (!p->names && !(p->names = tmpfile()))
        return fail_names();
    bool good = fwrite(&head, sizeof head, 1, p->names) == 1 &&
                fwrite(name->text, 1, name->length, p->names) == name->length;
    p->names_end += sizeof head + name->length;
    return good || fail_names();
}

/* The item of that name, perhaps a new one; NULL with the error printed. */
static struct known_item *find_item(struct preference *p, const struct own_value *name,
                                    uint64_t line) {
    if (!make_room(p) || (p->names && fflush(p->names) != 0 && !fail_names()))
        return NULL;
    uint64_t hash = XXH3_64bits(name->text, name->length);
    bool good = true;
    for (size_t at = hash % p->n_slot; p->slots[at]; at = (at + 1) % p->n_slot) {
        struct known_item *item = &p->items[p->slots[at] - 1];
        if (item->hash == hash && has_name(p, item, name, &good))
            return item;
        if (!good)
            return NULL;
    }
    struct known_item *item = &p->items[p->n];
    *item = (struct known_item){.hash = hash, .state = p->names_end << FLAG_BITS};
    if (!write_name(p, name, line))
        return NULL;
    fill_slot(p, p->n++);
    return item;
}

/* ---- Texts -------------------------------------------------------------------------------- */

static bool is_named(const struct own_value *value, const char *name, size_t length) {
    return value->length == length && memcmp(value->text, name, length) == 0;
}

static void leave_out(struct known_item *item) {
    item->state |= LEFT_OUT;
}

static int shown_length(const struct own_value *name) {
    return name->length < SHOWN ? (int)name->length : SHOWN;
}

bool preference_add(struct preference *p, const struct own_value *name,
                    const struct own_value *condition, const double *nats, uint64_t line) {
    struct known_item *item = find_item(p, name, line);
    if (!item)
        return false;
    uint64_t has = is_named(condition, p->a, p->n_a)   ? HAS_A
                   : is_named(condition, p->b, p->n_b) ? HAS_B
                                                       : 0;
    if (has == 0)
        return true;
    if (item->state & has && !(item->state & LEFT_OUT)) {
        terminal_error("%s: line %" PRIu64 ": item '%.*s' has condition '%.*s' twice and is left "
                       "out of --prefer",
                       p->name, line, shown_length(name), name->text, shown_length(condition),
                       condition->text);
        leave_out(item);
    }
    if (!nats && !(item->state & LEFT_OUT)) {
        terminal_error("%s: line %" PRIu64 ": item '%.*s' has no region %" PRId64
                       " in condition '%.*s' and is left out of --prefer",
                       p->name, line, shown_length(name), name->text, p->region,
                       shown_length(condition), condition->text);
        leave_out(item);
    }
    if (item->state & LEFT_OUT)
        return true;
    if (item->state & (HAS_A | HAS_B)) {
        double a = has == HAS_A ? *nats : item->nats, b = has == HAS_A ? item->nats : *nats;
        item->state |= a < b ? WON : a == b ? TIED : 0;
    }
    item->nats = *nats;
    item->state |= has;
    return true;
}

/* Names the item that begins at `*at` of the file of names, if it misses a condition; moves on. */
static bool name_missing(struct preference *p, uint64_t *at) {
    struct name_head head;
    if (!read_names(p, &head, sizeof head, *at))
        return false;
    char *text = malloc(head.length + 1);
    if (!text)
        return terminal_error("out of memory");
    const struct own_value name = {.text = text, .length = head.length};
    const struct known_item *item = NULL;
    if (read_names(p, text, head.length, *at + sizeof head))
        item = find_item(p, &name, head.line);
    uint64_t has = item ? item->state & (HAS_A | HAS_B) : 0;
    if (item && !(item->state & LEFT_OUT) && has != (HAS_A | HAS_B))
        terminal_error("%s: line %" PRIu64 ": item '%.*s' has no condition '%.*s' and is left out "
                       "of --prefer",
                       p->name, head.line, shown_length(&name), text,
                       (int)(has & HAS_A ? p->n_b : p->n_a), has & HAS_A ? p->b : p->a);
    free(text);
    *at += sizeof head + head.length;
    return item;
}

bool preference_end(struct preference *p, bool all) {
    bool good = true;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t state = p->items[i].state;
        bool pair = !(state & LEFT_OUT) && state & HAS_A && state & HAS_B;
        p->pairs += pair;
        p->preferred += pair && state & WON;
        p->ties += pair && state & TIED;
        p->left_out += !pair;
    }
    if (p->names && fflush(p->names) != 0)
        return fail_names();
    for (uint64_t at = 0; all && good && p->left_out > 0 && at < p->names_end;)
        good = name_missing(p, &at);
    return good;
}

void preference_free(struct preference *p) {
    if (p->names)
        fclose(p->names);
    free(p->items);
    free(p->slots);
    *p = (struct preference){0};
}

/* ---- The result --------------------------------------------------------------------------- */

/* The share of items that prefer A; NAN without items. */
static double share_of(const struct preference *p) {
    return p->pairs > 0 ? (double)p->preferred / (double)p->pairs : NAN;
}

static double standard_error(const struct preference *p) {
    double share = share_of(p);
    return sqrt(share * (1 - share) / (double)p->pairs);
}

json_t *preference_to_json(const struct preference *p) {
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "prefer",
                     output_json_bytes(p->a, p->n_a), "over", output_json_bytes(p->b, p->n_b),
                     "region", p->region < 0 ? json_null() : json_integer(p->region), "items",
                     (json_int_t)p->pairs, "preferred", (json_int_t)p->preferred, "ties",
                     (json_int_t)p->ties, "left_out", (json_int_t)p->left_out, "share",
                     output_json_number(share_of(p)), "standard_error",
                     output_json_number(standard_error(p)));
}

bool preference_print(const struct preference *p, const char *name) {
    char region[48] = "";
    if (p->region >= 0)
        snprintf(region, sizeof region, " in region %" PRId64, p->region);
    if (p->pairs == 0)
        return output_line("%s: no item has both %.*s and %.*s", name, (int)p->n_a, p->a,
                           (int)p->n_b, p->b);
    return output_line("%s: %.*s has fewer nats than %.*s%s in %.2f %% +/- %.2f of %" PRIu64
                       " items, %" PRIu64 " ties",
                       name, (int)p->n_a, p->a, (int)p->n_b, p->b, region, 100 * share_of(p),
                       100 * standard_error(p), p->pairs, p->ties);
}
