/* The published names of parameters, and a checkpoint's tensors by parameter.
 *
 * The tables of name_tables.c have a row for each parameter of a family and a column for each
 * dialect.  A dialect may spell a parameter in several ways; the first that the checkpoint has is
 * taken.  Everything else asks for parameters, and gets tensors as a weights file has them:
 * transposed, and of one layer alone. */
#ifndef CONVERT_NAMES_H
#define CONVERT_NAMES_H

#include "convert/containers/checkpoint.h"
#include "lib/network/family.h"

enum { NAMES_MAX_PREFIX = 256, NAMES_MAX_ORIGIN = 4 /* spellings of a parameter in a dialect */ };

/* NVIDIA's training code names the softmax's tensors its own way, and all others as PYTORCH. */
enum dialect_number { DIALECT_NVIDIA, DIALECT_PYTORCH, DIALECT_TENSORFLOW, N_DIALECT };

enum origin_flags {
    BY_RANK = 1,    /* other parameters have the same name, with another number of dimensions */
    TRANSPOSED = 2, /* its first dimension is the parameter's last */
    ALL_BANDS = 4,  /* one tensor for each band; only where one embedding serves all bands */
    /* Without a name, what stands for a parameter that the checkpoint may lack: */
    FREQUENCIES = 8, /* the sinusoids' */
    ZEROS = 16
};

/* The tensor that a parameter comes from. */
struct origin {
    const char *name; /* `*` is the number of the band or layer */
    /* The sizes of its dimensions, a letter or digit each; NULL: those of the parameter.  `L`, the
     * first, is n_layer: the tensor has a row for each layer. */
    const char *shape;
    enum origin_flags flags;
    const struct origin *next; /* the tensor that follows, of a parameter in pieces */
};

/* The spellings of a parameter in each dialect; the first that the checkpoint has is taken.  Where
 * NVIDIA's row is empty, that of PYTORCH holds. */
typedef struct origin names_row[N_DIALECT][NAMES_MAX_ORIGIN];

struct dialect {
    const char *mark; /* the end of a name that every such checkpoint has; the prefix precedes it.
                         NULL: the family has no such dialect */
    /* How the names of the softmax and of heads begin, up to NULL; they may have a shorter prefix:
     * this end of it may be missing. */
    const char *const *heads;
    const char *body;
};

/* How a family is published. */
struct name_table {
    const struct family *family;
    struct dialect dialect[N_DIALECT];                          /* looked for in this order */
    const names_row *row;                                       /* of each parameter */
    uint64_t (*size)(const void *settings, char letter, int i); /* of a dimension */
};

extern const struct name_table transformer_xl_names, xlnet_names;

/* A checkpoint, and how it spells the parameters. */
struct names {
    const struct checkpoint *checkpoint;
    const struct name_table *table;
    enum dialect_number dialect;
    char prefix[NAMES_MAX_PREFIX], head_prefix[NAMES_MAX_PREFIX];
    const char *slot; /* NULL: the parameters themselves are read; else the end of the names of what
                         an optimiser keeps beside them */
    bool all_bands;   /* one embedding serves all bands, whose biases are apart */
};

/* Finds the dialect; false if the checkpoint has no such family. */
bool names_find(const struct name_table *table, const struct checkpoint *checkpoint,
                struct names *names);

struct names_text {
    char text[NAMES_MAX_PREFIX + 96];
};

/* A name after the checkpoint's prefix, with `i` for its `*`. */
struct names_text names_spell(const struct names *names, const char *name, int i);

/* The first name of parameter `number` of band or layer `i` in the dialect. */
struct names_text names_usual(const struct names *names, int number, int i);

/* Whether the checkpoint has names that begin so, after its prefix. */
bool names_begin(const struct names *names, const char *start);

/* Which of the parameter's spellings the checkpoint has, or which row says what stands for it; or
 * -1. */
int names_which(const struct names *names, int number, int i);

/* The tensor of the first spelling alone, as it is; NULL if there is none.  Tied parameters may
 * have each other's names as further spellings. */
const struct checkpoint_tensor *names_own(const struct names *names, int number, int i);

/* One more than the largest band or layer that has the parameter, so that a gap shows as a missing
 * tensor. */
int names_count(const struct names *names, int number);

/* The parameter's tensor, or its first piece, which must exist, be of floating point and have as
 * many dimensions as its origin says, none of them 0. */
txl_status names_need(const struct names *names, int number, int i, struct checkpoint_tensor *view,
                      txl_error *error);

/* FREQUENCIES or ZEROS for an optional parameter that is absent, else 0. */
enum origin_flags names_computed(const struct names *names, int number, int i);

/* All pieces of a parameter, whose shapes must follow from the settings: views of the checkpoint's
 * tensors, to be read one after the other.  The caller frees `*piece`. */
txl_status names_pieces(const struct names *names, const void *settings,
                        const struct parameter_tensor *to, struct checkpoint_tensor **piece,
                        int *n_piece, txl_error *error);

/* Whether two parameters are tied: one storage has both names, both are copies, or there is only
 * one of them.  If `has_own`, the second must exist beside the first. */
txl_status names_tied(const struct names *names, int first, int i, int second, int j, bool has_own,
                      bool *tied, txl_error *error);

#endif
