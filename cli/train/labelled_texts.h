/* The texts and labels that a head is trained on: reading them, and which are held out. */
#ifndef CLI_TRAIN_LABELLED_TEXTS_H
#define CLI_TRAIN_LABELLED_TEXTS_H

#include "cli/heads/heads.h"
#include "train_options.h"

struct label {
    char *name;
    int32_t number;
    uint64_t n, n_held; /* its texts, and those of them that are held out */
};

struct labelled_texts {
    struct heads_options how; /* of the reader */
    struct heads heads;
    struct operands files; /* the tables, and at the end that of --valid */
    struct pieces text, other;
    struct inputs inputs; /* of all texts */

    struct label **labels; /* [n_label], by their bytes */
    size_t n_label, labels_room;
    struct labelled_text {
        struct label *label;
        bool held; /* out */
    } * texts;     /* [inputs.n] */
    size_t texts_room;
    size_t *learned, *held; /* [n_learned], [n_held]: indices of texts */
    size_t n_learned, n_held;

    /* Rows without a label: their number, and where the first one is. */
    uint64_t unlabelled, first_line;
    const char *first_table;
};

/* Opens the model of --init and the tables, reads all texts, and holds out those of --valid, or by
 * the seed a tenth of each label's.  OPTIONS_RUN, or the status to end with, with the error
 * printed. End with labelled_texts_close. */
int labelled_texts_read(struct labelled_texts *texts, const struct command *command,
                        const struct train_options *options, const struct operands *tables,
                        uint64_t seed);
void labelled_texts_close(struct labelled_texts *texts);

/* Identifies the texts: a checksum of their tokens.  False when memory is short. */
bool labelled_texts_checksum(const struct labelled_texts *texts, uint64_t *checksum);

/* Puts order[n] in an order that the seed and the stream choose. */
void shuffle(size_t *order, size_t n, uint64_t seed, uint64_t stream);

#endif
