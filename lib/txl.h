/* txl.h - libtxl runs, scores and trains Transformer-XL and XLNet language models.
 *
 *   txl_model    a weights file: the network's matrices, the vocabulary, the settings.  Read-only.
 *   txl_session  one timeline of tokens: the current segment and the memory before it.
 *   txl_encoder, txl_decoder
 *                text to ids, ids to text.
 *   txl_history  the ids of a text, for sampling that avoids repetition.
 *   txl_memory   a snapshot of a session.
 *   txl_trainer  a model in training on a text.
 *   txl_head_trainer
 *                a classifier's head in training on texts with labels.
 *   txl_learner  a model that learns from the text that it scores.
 *   txl_compressor, txl_decompressor
 *                texts to few bytes and back.
 *
 * The twenty functions that a program needs first:
 *
 *   txl_model_open, txl_model_defaults, txl_model_first_context, txl_model_close
 *   txl_session_new, txl_session_feed, txl_session_sample, txl_session_score,
 *   txl_session_distributions, txl_session_reset, txl_session_free, txl_sampling_defaults
 *   txl_encoder_new, txl_encoder_feed, txl_encoder_finish, txl_encoder_free
 *   txl_decoder_new, txl_decoder_push, txl_decoder_finish, txl_decoder_free
 *
 * The model within the program is the program's: `txl convert built-in -o FILE` makes a file of it.
 *
 * To continue a text (tests/example/generate.c): open a model, and make a session, an encoder and a
 * decoder for it.  Encode the text and feed its ids to the session.  For each new token, sample an
 * id, feed it and decode it.  To score a text, see txl_session_score and tests/example/score.c; to
 * fill gaps, see tests/example/fill.c.
 *
 * Units: lengths of text are in bytes, all other lengths in tokens.  Log-probabilities are natural
 * logarithms, <= 0; "nats" are their negatives.  out[n, n_token] is an array in row-major order.
 *
 * Ownership: the caller frees the objects that functions make, with the function ..._free or
 * ..._close, which accepts NULL.  Any other returned pointer belongs to an object; the comment says
 * how long it lives.  A function keeps no pointer to an argument unless the comment says so.
 *
 * Threads: any number of threads may use a model at the same time; one at a time may use any other
 * object.  A session has its own threads, which block all signals except SIGBUS.  Results do not
 * depend on the number of threads, bit for bit.  The library prints nothing and never exits.  It
 * keeps no state outside of objects, with one exception: while any model is open, OpenBLAS has one
 * thread in the whole process, because sessions divide the work themselves.  Closing the last model
 * restores the earlier number.
 *
 * Versions: structures keep their size and the place of their members.  New members take the place
 * of `reserved`, and zero turns each of them off.  So set a structure to zero before you fill it
 * in: by `= {0}`, by designated initialisers or by the function that sets its defaults.  Programs
 * built against an older header then run as before; an older library refuses a member that it does
 * not know (TXL_ARGUMENT).
 */
#ifndef TXL_H
#define TXL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TXL_VERSION "1.0.0" /* of this header */

#if defined(__GNUC__)
#define TXL_API __attribute__((visibility("default")))
#else
#define TXL_API
#endif

/* The version of the library that is running.  Lives as long as the process. */
TXL_API const char *txl_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

typedef enum txl_status {
    TXL_OK = 0,
    TXL_IO,          /* the system refused: open, map, read, write */
    TXL_FORMAT,      /* a file's content is not what its format says */
    TXL_UNSUPPORTED, /* a feature that txl does not have; the message names it */
    TXL_ARGUMENT,    /* a parameter is out of range, or does not fit the model */
    TXL_MEMORY,      /* an allocation failed */
    TXL_TEXT,        /* a symbol that the vocabulary lacks */
    TXL_STOPPED      /* a callback of the caller asked to stop */
} txl_status;

/* Why a call failed: filled in whenever a function does not return TXL_OK.  Pass NULL if you want
 * no message.  The message is one line without a line end; it names the file or parameter, the
 * place in it, and what was expected.  A function that fails makes no object, and its results are
 * undefined. */
typedef struct txl_error {
    txl_status status;
    char message[1024];
} txl_error;

/* ---- Models ------------------------------------------------------------------------------- */

/* The families of networks. */
typedef enum txl_family { TXL_FAMILY_TRANSFORMER_XL, TXL_FAMILY_XLNET } txl_family;

typedef struct txl_model txl_model;

/* How a model's text becomes symbols. */
typedef enum txl_kind {
    TXL_WORDS,      /* split at white space, a line ends with <eos> (WikiText, PTB) */
    TXL_LM1B,       /* as words, a line stands between two <S> (One Billion Words) */
    TXL_BYTES,      /* the symbol of a byte is its decimal number; line feeds have none (enwik8) */
    TXL_TEXT8,      /* a to z, and _ for the space */
    TXL_CHARACTERS, /* a code point is a symbol, a line ends with <eos> */
    TXL_PIECES,     /* cut by a SentencePiece model, a line ends with </s> */
    TXL_XLNET       /* cut by XLNet's SentencePiece model; a line end is only white space */
} txl_kind;

/* Opens the weights file at `path`.  The file is mapped: raw blocks are used in place, and
 * `threads` threads (0: one per processor) expand compressed ones into memory.  Everything is
 * checked but the bytes of raw blocks, which txl_file_verify checks.  The file must not change
 * while the model is open: if it shrinks, reading it raises SIGBUS. */
TXL_API txl_status txl_model_open(const char *path, int threads, txl_model **model,
                                  txl_error *error);

/* Opens a weights file in memory, which must be aligned to 64 bytes and outlive the model.
 * Messages call it `name`. */
TXL_API txl_status txl_model_open_memory(const void *data, size_t size, const char *name,
                                         int threads, txl_model **model, txl_error *error);

/* The same with less memory and more work: compressed layers stay in the file, and each session
 * expands one layer at a time, once for each pass over a segment.  Results are the same, bit for
 * bit.  A damaged block is found only when a session expands it: that call fails, and then the
 * session can only be reset or freed. */
TXL_API txl_status txl_model_open_compressed(const char *path, int threads, txl_model **model,
                                             txl_error *error);
TXL_API txl_status txl_model_open_memory_compressed(const void *data, size_t size, const char *name,
                                                    int threads, txl_model **model,
                                                    txl_error *error);

/* Makes a model of any shape with random weights, to measure speed.  `settings_json` has the form
 * of txl_model_settings_json.  The matrices are of `type` ("f32", ...), and their numbers depend on
 * `seed` alone.  The symbols are numbers. */
TXL_API txl_status txl_model_random(const char *settings_json, const char *type, uint64_t seed,
                                    int threads, txl_model **model, txl_error *error);

/* Frees the model; no session, encoder or decoder of it may be left. */
TXL_API void txl_model_close(txl_model *model);

/* All settings of the model, as one JSON object (weights-format.md lists the keys).  Lives as long
 * as the model. */
TXL_API const char *txl_model_settings_json(const txl_model *model);

/* The family of the model's network, and the name of a family ("transformer-xl", "xlnet"). */
TXL_API txl_family txl_model_family(const txl_model *model);
TXL_API const char *txl_family_name(txl_family family);

/* How the model's text becomes symbols. */
TXL_API txl_kind txl_model_kind(const txl_model *model);

/* The name of a kind: "words", "lm1b", "bytes", "text8", "characters", "pieces", "xlnet".  NULL for
 * a number beyond the last kind. */
TXL_API const char *txl_kind_name(txl_kind kind);

/* What a symbol of a kind is. */
typedef enum txl_unit {
    TXL_UNIT_WORD,      /* words, lm1b */
    TXL_UNIT_CHARACTER, /* bytes, text8, characters */
    TXL_UNIT_PIECE      /* pieces, xlnet */
} txl_unit;
TXL_API txl_unit txl_kind_unit(txl_kind kind);

/* What becomes of a line end in a text of a kind. */
typedef enum txl_line_end {
    TXL_LINE_END_SYMBOL, /* a symbol after each line: words, characters, pieces */
    TXL_LINE_END_PAIR,   /* a symbol before each line and one after it: lm1b */
    TXL_LINE_END_NONE,   /* no such symbol: bytes leaves it out, to text8 it is a character */
    TXL_LINE_END_SPACE   /* it is white space like any other: xlnet */
} txl_line_end;
TXL_API txl_line_end txl_kind_line_end(txl_kind kind);

/* The spelling of the symbol that is a space and nothing else: "32" of bytes, "_" of text8, " " of
 * characters.  NULL: the kind has no such symbol. */
TXL_API const char *txl_kind_space(txl_kind kind);

/* Whether a symbol is a byte (bytes).  Text of the other kinds is UTF-8: a byte order mark at its
 * start is dropped, and CR LF is one line end. */
TXL_API bool txl_kind_takes_bytes(txl_kind kind);

/* The name of the type that the matrices are stored in: "f32", "f16", "bf16", "q8", "q4", "q5". */
TXL_API const char *txl_model_type(const txl_model *model);

/* What the memory holds before the first token: "empty" or "zeros". */
TXL_API const char *txl_model_memory_start(const txl_model *model);

/* The order of the bands' entries in the head of the adaptive softmax: "reversed" or "forward". */
TXL_API const char *txl_model_cluster_order(const txl_model *model);

/* How many positions a token sees with same_length, itself included: "mem_len", or "mem_len + 1" in
 * models of the authors' TensorFlow code; "" of an XLNet. */
TXL_API const char *txl_model_same_length_reach(const txl_model *model);

/* What layer norm adds to the variance: 1e-5 in PyTorch's models, 1e-12 in TensorFlow's. */
TXL_API double txl_model_layer_norm_eps(const txl_model *model);

/* The rate of Adam with which the model's file says that it learns best in dynamic evaluation,
 * above 0 and up to 1; 0: it states none. */
TXL_API double txl_model_dynamic_lr(const txl_model *model);

/* Identifies the model: the checksum in the header of its weights file.  It covers the header and,
 * through the checksums that this and the index hold, every byte that a reader uses; the zeros that
 * fill up the space between parts of the file are not covered. */
TXL_API uint64_t txl_model_checksum(const txl_model *model);

/* Number of symbols; ids run from 0 to one less. */
TXL_API int32_t txl_model_n_token(const txl_model *model);

/* The spelling of symbol `id`, not NUL-terminated, and in `*length` its length; NULL for an id out
 * of range.  Lives as long as the model. */
TXL_API const char *txl_model_symbol(const txl_model *model, int32_t id, size_t *length);

/* The id of a symbol spelled exactly so, or -1. */
TXL_API int32_t txl_model_id(const txl_model *model, const char *symbol, size_t length);

/* The id that stands for unknown symbols (<unk>, <UNK>), or -1. */
TXL_API int32_t txl_model_unk(const txl_model *model);

/* The id of the line boundary (<eos>; lm1b: <S>), or -1. */
TXL_API int32_t txl_model_eos(const txl_model *model);

/* The `*n` ids that should never be sampled, because they stand for nothing in a text: <unk>, and
 * the control pieces of a SentencePiece model (<s>, <pad>, <mask>) but the boundary.
 * txl_sampling_defaults bans them.  They live as long as the model. */
TXL_API const int32_t *txl_model_banned(const txl_model *model, size_t *n);

/* The token that stands in for an empty prompt, and comes before a text that is scored alone:
 * <eos>, <S>, the byte 32 or _, or id 0 where the vocabulary lacks it.  (lm1b begins a line with
 * its <S> itself: then that is it.) */
TXL_API int32_t txl_model_first_context(const txl_model *model);

/* The head of a fine-tuned XLNet: what it says of a text.  A file with a head may lack the language
 * model: then sessions compute the head and nothing else (TXL_UNSUPPORTED). */
typedef enum txl_head {
    TXL_HEAD_NONE,
    TXL_HEAD_SEQUENCE, /* a class, or with one label a number */
    TXL_HEAD_CHOICE,   /* one of several choices */
    TXL_HEAD_TOKENS,   /* a class of each token */
    TXL_HEAD_SPANS,    /* where an answer is: its start and its end, independent of each other */
    TXL_HEAD_BEAMS     /* the same, an end for each of the most likely starts */
} txl_head;
TXL_API txl_head txl_model_head(const txl_model *model);
TXL_API bool txl_model_is_language_model(const txl_model *model);

/* The name of a head: "none", "sequence-classification", "multiple-choice", "token-classification",
 * "question-answering-simple", "question-answering".  NULL for a number beyond the last. */
TXL_API const char *txl_head_name(txl_head head);

/* The number of a head's labels, 0 of choices and answers; label `i` of them, which lives as long
 * as the model; and whether each has a probability of its own, so that a text may have several. */
TXL_API int txl_model_n_label(const txl_model *model);
TXL_API const char *txl_model_label(const txl_model *model, int i);
TXL_API bool txl_model_is_multi_label(const txl_model *model);

/* Bytes of the weights file, and of the weights that were expanded from it into memory (0: all are
 * used in place). */
TXL_API void txl_model_bytes(const txl_model *model, uint64_t *stored, uint64_t *expanded);

/* ---- Weights files ------------------------------------------------------------------------ */

/* A tensor as the file's index describes it. */
typedef struct txl_tensor {
    const char *name;
    const char *type;  /* "f32", "f16", "bf16", "q8", "q4", "q5" */
    int n_dim;         /* 0 to 4 */
    uint64_t shape[4]; /* rows first */
    uint64_t stored;   /* bytes in the file */
    uint64_t expanded; /* bytes of its elements */
    uint64_t reserved[4];
} txl_tensor;

/* How many tensors the index lists. */
TXL_API size_t txl_model_n_tensor(const txl_model *model);

/* Describes tensor `i` in the order of the file, from 0.  The strings live as long as the model. */
TXL_API void txl_model_tensor(const txl_model *model, size_t i, txl_tensor *tensor);

/* Reads the whole weights file at `path` and compares every checksum.  `progress`, unless NULL, is
 * called in this thread with `context`, the bytes read so far and the bytes in all.  If it returns
 * false, the work stops with TXL_STOPPED. */
TXL_API txl_status txl_file_verify(const char *path, bool (*progress)(void *, uint64_t, uint64_t),
                                   void *context, txl_error *error);

/* The same of a weights file in memory, data[size], which messages call `name`. */
TXL_API txl_status txl_memory_verify(const void *data, size_t size, const char *name,
                                     bool (*progress)(void *, uint64_t, uint64_t), void *context,
                                     txl_error *error);

/* The txl_model_checksum of the weights file at `path`, read from its header. */
TXL_API txl_status txl_file_checksum(const char *path, uint64_t *checksum, txl_error *error);

/* ---- Sessions ----------------------------------------------------------------------------- */

typedef struct txl_session txl_session;

/* The type of stored keys, values and position rows.  f16 and bf16 take half the memory of f32, q8
 * (8-bit integers, a scale for each head of a row) little more than a quarter, and a token reads as
 * much less.  On three trained models f16 changed a token's nats by 0.0001 to 0.0009 on average,
 * and by 0.026 at most; q8 by 0.003 to 0.025, 0.49 at most, and the mean of a text by less than
 * 0.0005.  bf16 also rounds queries and attention weights: it changed them by 0.001 to 0.007, 0.33
 * at most, and scoring is faster where the processor multiplies bf16 (docs/speed.md has all). */
typedef enum txl_memory_type {
    TXL_MEMORY_F32 = 0,
    TXL_MEMORY_F16,
    TXL_MEMORY_BF16,
    TXL_MEMORY_Q8
} txl_memory_type;

/* What activations are rounded to before weights multiply them.  By default they stay in f32; where
 * up to eight rows of them meet weights in q8, q4 or q5, they have 16 bits, with a scale for each
 * row. TXL_COMPUTE_BF16, for weights in bf16, and TXL_COMPUTE_INT8, for weights in q8, q5 or q4,
 * round more than eight rows at a time: to bf16, or to 8 bits with a scale for each 64.
 * That is faster where the processor multiplies such numbers, and gives the same within float
 * rounding where it does not (docs/speed.md has the speed, and how much a token changes).  Both are
 * for scoring: a token's scores then depend on how many tokens are fed with it. */
typedef enum txl_compute { TXL_COMPUTE_F32 = 0, TXL_COMPUTE_INT8, TXL_COMPUTE_BF16 } txl_compute;

/* How a session rounds.  With the fast arithmetic, results differ by rounding between kinds of
 * processors, between divisions of the ids into calls (docs/speed.md has the figures) and, as f32
 * weights are multiplied by OpenBLAS's sgemm, between its versions and cores.
 *
 * With the exact arithmetic, the same weights file, settings and ids give the same bits: for any
 * division into calls, any number of threads, any sessions fed together, any processor, any
 * compiler and any later version.  weights-format.md specifies it.  It needs a Transformer-XL with
 * relative positions (attn_type 0 or 1), a memory in f32 or f16, and TXL_COMPUTE_F32; all else is
 * TXL_UNSUPPORTED.
 *
 * The arithmetic in integers is as exact, and faster, since it rounds more: activations, keys and
 * values to 8 bits.  Texts are compressed with it.  It needs a Transformer-XL of attn_type 0 whose
 * matrices are all in q8 or q4, a memory in q8, and TXL_COMPUTE_F32.  Its sessions' memory cannot
 * be saved. */
typedef enum txl_arithmetic {
    TXL_ARITHMETIC_FAST = 0,
    TXL_ARITHMETIC_EXACT,   /* number 1 of weights-format.md */
    TXL_ARITHMETIC_INTEGERS /* number 2 */
} txl_arithmetic;

/* The largest lengths, in tokens.  The longest published memory is 3,800; one of 2^20 takes 50 GB
 * or more with models of the published shapes. */
#define TXL_MAX_TGT_LEN (1 << 20)
#define TXL_MAX_MEM_LEN (1 << 20)

typedef struct txl_settings {
    int tgt_len;      /* tokens of a segment, 1 to TXL_MAX_TGT_LEN */
    int mem_len;      /* rows of memory before the segment, 0 to TXL_MAX_MEM_LEN */
    int clamp_len;    /* longest distance with a position of its own; <= 0: no limit */
    bool same_length; /* every token sees exactly mem_len positions, itself included, or one more:
                         txl_model_same_length_reach */
    int threads;      /* 0: one per processor.  Of sessions used at the same time each has its
                         own: give them 1 where there are as many as processors */
    txl_memory_type memory_type;
    txl_compute compute;
    int padding; /* not read: programs built against older headers leave it undefined */
    txl_arithmetic arithmetic;
    uint64_t reserved[7];
} txl_settings;

/* Sets every member: lengths as the model was published, threads 0, memory_type f32. */
TXL_API void txl_model_defaults(const txl_model *model, txl_settings *settings);

/* Makes a session that has read nothing yet.  The model must outlive it. */
TXL_API txl_status txl_session_new(const txl_model *model, const txl_settings *settings,
                                   txl_session **session, txl_error *error);
TXL_API void txl_session_free(txl_session *session);

/* The settings of the session; threads is the actual number, never 0. */
TXL_API void txl_session_settings(const txl_session *session, txl_settings *settings);

/* How many tokens before the start of a segment can reach its distributions, through all layers'
 * memories: a session that was fed from there on, from the start of a segment, has the same
 * distributions.  UINT64_MAX for XLNets and attention types 2 and 3, whose segments begin
 * otherwise. */
TXL_API uint64_t txl_session_reach(const txl_session *session);

/* Bytes that txl_session_new allocates with these settings.  They become resident as they are used;
 * fewer do in a copy, which shares rows with its original (txl_session_copy). */
TXL_API uint64_t txl_session_bytes(const txl_model *model, const txl_settings *settings);

/* The least work for one token with a full memory.  Divided by the machine's limits (see "The
 * machine") it gives the shortest possible time.  The token counts as one of the softmax's first
 * band, as nearly all tokens of a text are; txl_model_target_flops gives what others add. */
typedef struct txl_costs {
    uint64_t bytes; /* read to generate a token: weights, keys, values, position rows */
    uint64_t flops; /* additions and multiplications to score a token of a long text */
    /* XLNet: to read a token in a block of tgt_len tokens without memory, as when known tokens are
     * read again; 0 for other families. */
    uint64_t block_flops;
    uint64_t reserved[3];
} txl_costs;
TXL_API void txl_model_costs(const txl_model *model, const txl_settings *settings,
                             txl_costs *costs);

/* Extra flops to score target `id`, from 0 to n_token - 1, beyond costs.flops: its band's logits;
 * 0 in the first band. */
TXL_API uint64_t txl_model_target_flops(const txl_model *model, int32_t id);

/* Returns the session to its beginning, as if nothing had been fed. */
TXL_API void txl_session_reset(txl_session *session);

/* Appends `n` ids to the timeline; then the distribution of the next token is available.  Few calls
 * with many ids are faster; results are the same up to rounding (txl_arithmetic).  If an id is out
 * of range the call fails with TXL_ARGUMENT and appends nothing. */
TXL_API txl_status txl_session_feed(txl_session *session, const int32_t *ids, size_t n,
                                    txl_error *error);

/* Appends ids[i] to the i-th of `n` different sessions, which must have the same model and
 * settings.  It is faster than txl_session_feed for each: the weights are read once for all.  Up to
 * 8 copies (txl_session_copy) that are neighbours in `sessions` also share one read of their common
 * keys and values.  The threads of the first session do the work.
 *
 * Up to 8 sessions get the same bits as from txl_session_feed, whatever sessions are fed with them;
 * with more, the last digits may differ.  In the exact arithmetic any number get the same bits.
 * (Where the memory starts with zeros, the last digits of a copy may differ from those of a session
 * that was never copied.) */
TXL_API txl_status txl_session_feed_each(txl_session *const *sessions, size_t n, const int32_t *ids,
                                         txl_error *error);

/* The most ids that txl_session_expect takes. */
#define TXL_MAX_EXPECTED 7

/* Says which ids[n] will probably be fed after the next one, each by a txl_session_feed of its own.
 * The first of these calls then reads them all in one pass, and those that follow find their work
 * done for as long as the ids are the expected ones.  The first other id and any other call that
 * changes the session make it forget the rest.  So they may be wrong: what the session computes is
 * the same, bit for bit.  *taken becomes the number of ids that one pass can take, which may be
 * less: 0 of XLNets, of attention types 2 and 3, of the first tokens where the memory starts with
 * zeros, and at the end of a segment.  The first call allocates 8 rows of a distribution. */
TXL_API txl_status txl_session_expect(txl_session *session, const int32_t *ids, size_t n,
                                      size_t *taken, txl_error *error);

/* Makes a second session at the same place of the same timeline.  Afterwards the two are
 * independent: each may be fed, reset or freed by a thread of its own.  They share what is only
 * read from now on: position rows, which this call computes, and a Transformer-XL's keys and values
 * so far, which are freed when the last memory has moved past them.  If the original was fed since
 * its last copy, it allocates room for new keys and values. */
TXL_API txl_status txl_session_copy(txl_session *session, txl_session **copy, txl_error *error);

/* Appends `n` ids and scores the token after each:
 *     nats[i] = -log P(targets[i] | everything before, ids[0..i])
 * In a text, targets[i] is ids[i + 1]. */
TXL_API txl_status txl_session_score(txl_session *session, const int32_t *ids, size_t n,
                                     const int32_t *targets, float *nats, txl_error *error);

/* Appends `n` ids and gives the log-probabilities of every possible token after each, out[n,
 * n_token]:
 *     out[i * n_token + id] = log P(id | everything before, ids[0..i])
 * This is far faster than feeding the ids one by one, but takes room: 64 rows of a vocabulary of
 * 267,735 words are 69 MB. */
TXL_API txl_status txl_session_distributions(txl_session *session, const int32_t *ids, size_t n,
                                             float *out, txl_error *error);

/* ---- Blocks and gaps: XLNet --------------------------------------------------------------- */

/* An XLNet sees both sides of a token.  Each position of a segment has a rank.  Its token is
 * predicted from the whole memory and from the segment's tokens of lower rank.  A token that is fed
 * sees those and itself; tokens of rank 0 also see each other.
 *
 *   txl_session_feed, _score,   Ranks ascend from left to right, in segments of tgt_len tokens.
 *   _distributions
 *   txl_session_feed_block      All ranks are 0: the tokens are a block, and see each other.
 *   txl_session_feed_gaps       Known tokens are a block; a gap gets its rank when it is filled.
 *
 * Published code generates in two ways.  One reads a block, and then feeds tokens one at a time,
 * each as a segment of its own: txl_session_end_segment and txl_session_feed.  The other reads all
 * known tokens again as a block after every few new ones: txl_session_reset and
 * txl_session_feed_block; txl_session_score_block scores a text in this way.
 *
 * With a Transformer-XL all functions here but txl_session_end_segment are TXL_UNSUPPORTED. */

/* Stands for a gap among the ids of a segment. */
#define TXL_GAP (-1)

/* The most gaps, or tokens after a block, that one call can ask for. */
#define TXL_MAX_ASKED 512

/* The next token begins a new segment. */
TXL_API void txl_session_end_segment(txl_session *session);

/* Appends `n` ids as blocks, one per segment of tgt_len tokens; then the distribution of the
 * next token is available. */
TXL_API txl_status txl_session_feed_block(txl_session *session, const int32_t *ids, size_t n,
                                          txl_error *error);

/* Resets the session, reads ids[0 .. known) as one block, and scores the `n` tokens after it:
 *     nats[i] = -log P(ids[known + i] | ids[0 .. known + i))
 *     logprob[i * n_token + id] = log P(id | ids[0 .. known + i))
 * Either may be NULL.  1 <= known <= tgt_len; 1 <= n <= mem_len + 1, and n <= TXL_MAX_ASKED. */
TXL_API txl_status txl_session_score_block(txl_session *session, const int32_t *ids, size_t known,
                                           size_t n, float *nats, float *logprob, txl_error *error);

/* Appends a segment of n positions, 1 <= n <= tgt_len; ids[i] is an id or TXL_GAP.  At least one
 * token of the segment or of the memory must be known.  Fill all gaps before you append anything
 * more, and before you copy or save the session. */
TXL_API txl_status txl_session_feed_gaps(txl_session *session, const int32_t *ids, size_t n,
                                         txl_error *error);

/* Predicts the tokens of n open gaps, each from the known tokens and the gaps filled before.
 * gaps[n] are indices into the segment.  logprob[n, n_token], unless NULL, receives the
 * log-probabilities.  Afterwards txl_session_logprobs, _top and _sample refer to the first of these
 * gaps. */
TXL_API txl_status txl_session_ask(txl_session *session, const size_t *gaps, size_t n,
                                   float *logprob, txl_error *error);

/* Makes txl_session_logprobs, _top and _sample refer to the i-th of the gaps last asked for, until
 * another call changes the session. */
TXL_API txl_status txl_session_look(txl_session *session, size_t i, txl_error *error);

/* Fills an open gap. */
TXL_API txl_status txl_session_fill(txl_session *session, size_t gap, int32_t id, txl_error *error);

/* ---- Heads: XLNet ------------------------------------------------------------------------- */

/* What the head of a fine-tuned XLNet says of inputs.  An input is read by itself: all of its
 * tokens see each other (with attn_type "uni" those to their left), and nothing before.  Each
 * belongs to a segment; published models have, with their ids of <sep> and <cls>,
 *
 *     one text       A <sep> <cls>           segments 0 .. 0 0 2
 *     two            A <sep> B <sep> <cls>   segments 0 .. 0 0 1 .. 1 1 2
 *     an answer      text <sep> question <sep> <cls>
 *
 * Inputs that are read together are faster if they are short, and give the same up to rounding.
 * They have at most tgt_len ids together; mem_len may be 0.  The session returns to its beginning.
 * TXL_UNSUPPORTED: the model has no such head. */
typedef struct txl_input {
    const int32_t *ids;      /* [n] */
    const uint8_t *segments; /* [n] */
    size_t n;                /* at least 1 */
    uint64_t reserved[2];
} txl_input;

/* The rows after the last layer, hidden[N, d_model] for N ids of all inputs.  Of any XLNet, with a
 * head or without. */
TXL_API txl_status txl_session_hidden(txl_session *session, const txl_input *inputs, size_t n,
                                      float *hidden, txl_error *error);

/* TXL_HEAD_SEQUENCE: logits[n, n_label] of the classes of each input.  TXL_HEAD_CHOICE: logits[n],
 * one per choice, which is an input of its own. */
TXL_API txl_status txl_session_classify(txl_session *session, const txl_input *inputs, size_t n,
                                        float *logits, txl_error *error);

/* TXL_HEAD_TOKENS: logits[N, n_label] of the classes of each id. */
TXL_API txl_status txl_session_classify_tokens(txl_session *session, const txl_input *inputs,
                                               size_t n, float *logits, txl_error *error);

/* TXL_HEAD_SPANS: logits[N, 2] that an answer begins, and that it ends, with each id. */
TXL_API txl_status txl_session_spans(txl_session *session, const txl_input *inputs, size_t n,
                                     float *logits, txl_error *error);

/* The most likely starts of an answer, best first, and for each the most likely ends.  Of equally
 * likely ones the first comes first.  Probabilities are among the ids of the text and the last id.
 */
typedef struct txl_beams {
    size_t n_start, n_end;       /* as the model keeps them, or all that there are */
    const size_t *start;         /* [n_start]: places in the input */
    const double *start_logprob; /* [n_start] */
    const size_t *end;           /* [n_start, n_end] */
    const double *end_logprob;   /* [n_start, n_end] */
    const float *start_logits;   /* [n] of all ids */
    float no_answer;             /* the logit that the text has no answer */
} txl_beams;

/* TXL_HEAD_BEAMS, of an input whose first `text` ids, fewer than n, are the text. */
TXL_API txl_status txl_session_beams(txl_session *session, const txl_input *input, size_t text,
                                     const txl_beams **beams, txl_error *error);
TXL_API void txl_beams_free(const txl_beams *beams); /* NULL is fine */

/* ---- The next token ----------------------------------------------------------------------- */

/* The log-probabilities of every possible next token: out[n_token].  At least one id must have
 * been fed. */
TXL_API txl_status txl_session_logprobs(txl_session *session, float *out, txl_error *error);

/* The `k` most likely next tokens, from 0 to n_token, best first (ties: the lower id first), with
 * their log-probabilities: ids[k], logprobs[k].  At least one id must have been fed.  Bands of an
 * adaptive softmax that cannot contain one of them are not computed. */
TXL_API txl_status txl_session_top(txl_session *session, int k, int32_t *ids, float *logprobs,
                                   txl_error *error);

/* ---- Sampling ----------------------------------------------------------------------------- */

/* The ids so far, for the rules against repetition.  The caller pushes the prompt's ids and each
 * sampled id. */
typedef struct txl_history txl_history;

/* A history of the last `window` >= 1 ids, with an index of their n-grams for n >= 1, without one
 * for 0.  Its memory is fixed: 4 bytes for each id of the window, 20 with an index. */
TXL_API txl_status txl_history_new(size_t window, size_t n, txl_history **history,
                                   txl_error *error);

/* Adds ids at the end.  With an index the time grows with the number of different ids that have
 * followed the same n - 1, not with the length of the history. */
TXL_API void txl_history_push(txl_history *history, const int32_t *ids, size_t n);

/* Copies the last n ids, oldest first, or all if there are fewer, and returns their number.  To
 * copy a history, get as many ids as its window holds and push them to a new one. */
TXL_API size_t txl_history_recent(const txl_history *history, int32_t *ids, size_t n);

/* Forgets everything. */
TXL_API void txl_history_reset(txl_history *history);
TXL_API void txl_history_free(txl_history *history);

/* How the next token is sampled.  The steps come in this order; p is the probability after the step
 * before, renormalised, and at first the model's:
 *
 *   repetition  an id among the last repeat_last of the history gets R log p for log p, hence p^R
 *   penalty R   for p.  (Keskar et al. 2019, section 4.1, divide logits by R, which penalises
 *               positive logits only; log-probabilities are never positive)
 *   bans        the ids in `banned` are left out, and, if the history has an index, those that
 *               would repeat one of its n-grams (Paulus et al. 2018, section 2.5)
 *   temperature log p / T for log p
 *   top_k       the k most likely stay, of equally likely ones the lower ids (Fan et al. 2018)
 *   typical P   the fewest that reach probability P stay, in the order of |log p + H|, where H is
 *               the entropy -sum p log p (locally typical sampling, Meister et al. 2022)
 *   top_p       the fewest most likely ids stay that reach probability top_p (Holtzman et al. 2020)
 *   min_p       those stay whose p is at least min_p times the largest (Nguyen et al. 2024)
 *
 * Then one of the rest is sampled by its probability.  Temperature 0 takes the most likely after
 * penalty and bans, ties going to the lowest id.  The temperature comes before the filters, as in
 * Hugging Face's generate, so that filters count the probabilities after it.  The filters are in
 * llama.cpp's order, from the coarsest to the finest. */
typedef struct txl_sampling {
    float temperature;     /* 0: the most likely token */
    int top_k;             /* 0: off */
    float top_p;           /* 0 or 1: off */
    const int32_t *banned; /* the caller's, read for every token */
    size_t n_banned;
    float min_p;                /* 0: off */
    float typical;              /* 0 or 1: off */
    float repetition_penalty;   /* 0 or 1: off; below 1 it favours repetition */
    size_t repeat_last;         /* of the penalty; at most the history's window */
    const txl_history *history; /* the caller's, likewise; NULL: none */
    uint64_t reserved[8];
} txl_sampling;

#define TXL_TEMPERATURE 0.95
#define TXL_TOP_K 40  /* where symbols are words; other kinds have no top_k */
#define TXL_MIN_P 0.1 /* of all other kinds but pieces */
#define TXL_MIN_P_PIECES 0.01
#define TXL_REPEAT_LAST 64

/* Sets every member as `txl generate` does by default with this model: TXL_TEMPERATURE, top_k for
 * words or min_p for all other kinds, the ids of txl_model_banned banned, repeat_last for a penalty
 * that you may set, and everything else off.  All zero is another good start: it takes the
 * most likely token. */
TXL_API void txl_sampling_defaults(const txl_model *model, txl_sampling *sampling);

/* A place in a sequence of random numbers, made by Philox4x32-10 (Salmon et al. 2011).  The seed is
 * its key and (stream, draw) its counter, so the number depends on nothing else. */
typedef struct txl_random {
    uint64_t seed;
    uint64_t stream;
    uint64_t draw;
} txl_random;

/* Samples the next token and advances `random` by one number, or by none at temperature 0.
 * `*logprob` receives the model's log-probability of the token, before temperature and filters. The
 * session does not advance: feed the id to continue. */
TXL_API txl_status txl_session_sample(txl_session *session, const txl_sampling *sampling,
                                      txl_random *random, int32_t *id, float *logprob,
                                      txl_error *error);

/* ---- Saved memory ------------------------------------------------------------------------- */

/* A snapshot of a session's state, to go back to or to keep in a file. */
typedef struct txl_memory txl_memory;

/* What a caller needs besides the session to continue a text.  The library only stores it. */
typedef struct txl_resume {
    txl_random random;     /* of the next token */
    const int32_t *recent; /* [n_recent] the text's last ids: for a decoder, for a history */
    size_t n_recent;
    char tail; /* its last byte as shown, 0: none */
    /* XLNet: all known tokens are read again as a block after every `refresh` new ones (0: never);
     * `round` tokens have come since the last time. */
    uint32_t refresh, round;
    uint64_t reserved[4];
} txl_resume;

/* Takes a snapshot of `session`; `resume` may be NULL.  Keys or values that are not finite, as of
 * damaged weights, are TXL_FORMAT. */
TXL_API txl_status txl_session_save(const txl_session *session, const txl_resume *resume,
                                    txl_memory **memory, txl_error *error);

/* Restores the saved state into `session`, which must have the same model and the settings of
 * txl_memory_settings.  Its results are then those of the saved session, bit for bit.  After a
 * failure the session is as before. */
TXL_API txl_status txl_session_load(txl_session *session, const txl_memory *memory,
                                    txl_error *error);

/* Writes the memory to a file (weights-format.md).  The file at `path` is replaced as a whole or
 * not at all. */
TXL_API txl_status txl_memory_write(const txl_memory *memory, const char *path, txl_error *error);

/* Reads such a file.  Everything in it is checked; if it is of another model, the message names
 * that. */
TXL_API txl_status txl_memory_read(const char *path, const txl_model *model, txl_memory **memory,
                                   txl_error *error);

/* The settings of the session that was saved; threads is 0. */
TXL_API void txl_memory_settings(const txl_memory *memory, txl_settings *settings);

/* The txl_resume that was saved; `recent` lives as long as the memory. */
TXL_API void txl_memory_resume(const txl_memory *memory, txl_resume *resume);

TXL_API void txl_memory_free(txl_memory *memory);

/* ---- Text to ids -------------------------------------------------------------------------- */

typedef struct txl_encoder txl_encoder;

/* One symbol of a text, or the end of a line.
 *
 * A symbol names the bytes of the text that it stands for.  A line boundary (<eos>, lm1b's closing
 * <S>) stands for LF or CR LF.  White space between symbols, a byte order mark and, in bytes
 * models, line feeds belong to no symbol.  If several symbols come from the same bytes, as when the
 * Moses tokenizer parts a character, each names all of them.  A symbol that stands for nothing
 * (lm1b's opening <S>, the boundary of an unterminated line) has 0 bytes at its place.  Neither
 * `offset` nor offset + bytes ever decreases, so a caller that needs the bytes of later symbols
 * keeps the text from the last `offset` on. */
typedef struct txl_symbol {
    const char *text; /* its spelling before the vocabulary is asked, not NUL-terminated, alive
                         during the call; NULL: a line ended */
    size_t length;    /* of the spelling, in bytes */
    int32_t id;       /* -1 for a line end, and when `lookup` is off */
    uint64_t line;    /* of the text, from 1, in which its bytes begin */
    uint64_t offset;  /* where in the text, in bytes from its start, they begin */
    uint64_t bytes;   /* how many they are; 0 for the end of a line */
    /* Code points of the text from its start to the end of those bytes; of bytes models bytes. */
    uint64_t characters;
} txl_symbol;

typedef struct txl_encoding {
    bool raw;          /* words and lm1b: prose, through the Moses tokenizer; else split already */
    bool prompt;       /* it ends as a prompt, not as a corpus: txl_encoder_new */
    bool skip_unknown; /* leave out what the vocabulary lacks, where it has no <unk> */
    bool lookup;       /* ask the vocabulary; without it every spelling is passed on as it is */
    /* Receives the symbols in order.  If it returns anything but TXL_OK, the call ends with that
     * status, and with the message that it wrote to `error`, which may be NULL. */
    txl_status (*symbol)(void *context, const txl_symbol *symbol, txl_error *error);
    void *context;
    /* NULL, or sees each symbol that the vocabulary lacks before <unk> replaces it or it is left
     * out; its id is that of <unk> or -1.  `column` counts the code points of its line, from 1. */
    void (*unknown)(void *context, const txl_symbol *symbol, uint64_t column);
    void *unknown_context;
    bool continues; /* pieces, xlnet: the text continues where another ended, so that no space is
                     * put before it */
    uint64_t reserved[8];
} txl_encoding;

/* Counts since the encoder was made. */
typedef struct txl_encoded {
    uint64_t bytes;      /* of text */
    uint64_t characters; /* code points of it; for bytes models its bytes */
    uint64_t symbols;    /* passed on with an id */
    uint64_t unknown;    /* replaced by <unk> or left out */
    uint64_t invalid;    /* sequences of bytes that are not UTF-8, read as U+FFFD */
    uint64_t reserved[3];
} txl_encoded;

/* Makes an encoder, which copies `encoding`.  Text may come in pieces of any size, cut anywhere,
 * and takes constant memory.  It is UTF-8, or any bytes for bytes models; each maximal invalid
 * sequence counts as U+FFFD.  A symbol that the vocabulary lacks becomes <unk>; without an <unk> it
 * is TXL_TEXT, unless skip_unknown is set.  After a failure the encoder can only be freed.
 *
 * Every line of a corpus gets its boundary symbols, an unterminated last one too.  A prompt loses
 * one line end at its very end; its last line gets no closing symbol and keeps its trailing spaces.
 */
TXL_API txl_status txl_encoder_new(const txl_model *model, const txl_encoding *encoding,
                                   txl_encoder **encoder, txl_error *error);
TXL_API txl_status txl_encoder_feed(txl_encoder *encoder, const char *text, size_t length,
                                    txl_error *error);

/* Joins two lines of a wrapped paragraph: one space stands for the line end and the white space
 * before it.  `bytes` is the length of both together, which are ASCII and end in LF; they are not
 * fed.  Not for bytes models. */
TXL_API txl_status txl_encoder_join(txl_encoder *encoder, unsigned bytes, txl_error *error);

/* Ends a line: a line end stands for itself and the white space before it, which is not part of the
 * text.  `bytes` as above. */
TXL_API txl_status txl_encoder_end_line(txl_encoder *encoder, unsigned bytes, txl_error *error);

/* Ends the text: passes on the rest.  The encoder is then as new, but its counts continue. */
TXL_API txl_status txl_encoder_finish(txl_encoder *encoder, txl_error *error);

/* Encodes text[length] in one call: sets `*n` to the number of its ids, and ids[room] to the first
 * of them.  Of `encoding` the members lookup, symbol and context are ignored. */
TXL_API txl_status txl_encode(const txl_model *model, const txl_encoding *encoding,
                              const char *text, size_t length, int32_t *ids, size_t room, size_t *n,
                              txl_error *error);

TXL_API void txl_encoder_counts(const txl_encoder *encoder, txl_encoded *counts);
TXL_API void txl_encoder_free(txl_encoder *encoder);

/* ---- Ids to text -------------------------------------------------------------------------- */

typedef struct txl_decoder txl_decoder;

/* Makes a decoder.  `raw`: words and lm1b go through the Moses detokenizer. */
TXL_API txl_status txl_decoder_new(const txl_model *model, bool raw, txl_decoder **decoder,
                                   txl_error *error);

/* Adds one id.  `*text` receives the `*length` bytes, possibly none, that no later id can change.
 * They are not NUL-terminated, and live until the next call. */
TXL_API txl_status txl_decoder_push(txl_decoder *decoder, int32_t id, const char **text,
                                    size_t *length, txl_error *error);

/* Adds a symbol by its spelling, of `n` bytes, which need not be in the vocabulary. */
TXL_API txl_status txl_decoder_push_spelling(txl_decoder *decoder, const char *spelling, size_t n,
                                             const char **text, size_t *length, txl_error *error);

/* Ends the text: `*text` receives the rest of it.  The decoder is then as new. */
TXL_API txl_status txl_decoder_finish(txl_decoder *decoder, const char **text, size_t *length,
                                      txl_error *error);

/* Continues a text that was shown already: `ids` are its last symbols, and `tail` is its last byte
 * (0: nothing was shown).  The decoder then puts a space before the next word only where one is
 * missing. */
TXL_API txl_status txl_decoder_continue(txl_decoder *decoder, const int32_t *ids, size_t n,
                                        char tail, txl_error *error);

TXL_API void txl_decoder_free(txl_decoder *decoder);

/* ---- Training ----------------------------------------------------------------------------- */

/* A spelling, not NUL-terminated. */
typedef struct txl_spelling {
    const char *text;
    size_t length;
} txl_spelling;

/* Makes the vocabulary section of a weights file from the spellings of its symbols.  The caller
 * frees *section, of *size bytes, with free(). */
TXL_API txl_status txl_vocabulary_pack(const txl_spelling *symbols, size_t n, void **section,
                                       size_t *size, txl_error *error);

/* Makes a model to be trained.  `settings_json` has the keys of weights-format.md; `vocabulary` is
 * a vocabulary section of `size` bytes, which is copied.  The weights are sampled as the published
 * training code samples them, and depend on `seed` alone. */
TXL_API txl_status txl_model_new(const char *settings_json, const void *vocabulary, size_t size,
                                 uint64_t seed, int threads, txl_model **model, txl_error *error);

/* Writes the model as a weights file whose matrices are of `type` ("f32", ...); after "q4" or "q5"
 * a colon and another type with scales may follow, for the embeddings and the softmax's weights:
 * "q4:q8". The file at `path` is replaced as a whole or not at all. */
TXL_API txl_status txl_model_write(const txl_model *model, const char *path, const char *type,
                                   int threads, txl_error *error);

/* A text that rounding is calibrated by. */
typedef struct txl_calibration {
    const int32_t *ids; /* [n], n >= 2: 8,192 and one are enough */
    size_t n;
    bool (*progress)(void *context, uint64_t done, uint64_t total); /* NULL, or false stops */
    void *context;
} txl_calibration;

/* The same for a `type` of "q4" or "q5" with `calibration` (Frantar et al. 2023, "GPTQ"): the model
 * reads the text in the exact arithmetic, and where an element of a layer's matrix is rounded,
 * later columns of its row make up for the error that the matrix's inputs in the text would see.
 * The result is the same on every processor.  Needs a Transformer-XL whose attention the exact
 * arithmetic covers, not opened compressed, and about 1 GB of memory.  Writes to the open file,
 * which is empty, and which messages call `name`. */
TXL_API txl_status txl_model_write_calibrated(const txl_model *model, int file, const char *name,
                                              const char *type, const txl_calibration *calibration,
                                              int threads, txl_error *error);

/* The ids of a text, each in as few bytes as the vocabulary's size allows. */
typedef struct txl_ids txl_ids;

/* Makes an empty list for ids from 0 to n_token - 1. */
TXL_API txl_status txl_ids_new(int32_t n_token, txl_ids **ids, txl_error *error);

/* Adds n ids at the end.  If one is out of range the call fails with TXL_ARGUMENT. */
TXL_API txl_status txl_ids_add(txl_ids *ids, const int32_t *add, size_t n, txl_error *error);
TXL_API size_t txl_ids_count(const txl_ids *ids);

/* Copies ids [first, first + n) to out[n]; first + n must not exceed the count. */
TXL_API void txl_ids_get(const txl_ids *ids, size_t first, size_t n, int32_t *out);

/* Identifies the text: a checksum of all ids. */
TXL_API uint64_t txl_ids_checksum(const txl_ids *ids);
TXL_API void txl_ids_free(txl_ids *ids);

/* Processes that train together.  Each has some of the batch's streams.  The caller gives all the
 * same model, and connects them: both functions replace x[n] by its sum over all processes, with
 * the same bits in each, or fail in all.  All peers call txl_trainer_step and txl_trainer_save, in
 * the same order. */
typedef struct txl_peers {
    int rank, n; /* this process, from 0, and how many there are */
    txl_status (*sum)(void *context, float *x, size_t n, txl_error *error);
    txl_status (*sum_doubles)(void *context, double *x, size_t n, txl_error *error);
    void *context;
    uint64_t reserved[4];
} txl_peers;

/* How a model is trained (Dai et al. 2019 and the published code).  Set every member: except for
 * `threads`, zero is not a default.  With ext_len a step reads its tokens after up to so many that
 * were predicted before, in one segment; gradients flow through all of them (the paper's "half"
 * losses, where ext_len is tgt_len). */
typedef struct txl_training {
    int batch;              /* streams that the text is cut into, of all peers together */
    int tgt_len;            /* tokens of each stream that a step predicts */
    int ext_len;            /* tokens before them that it reads again; mem_len is 0 then */
    int mem_len;            /* rows of memory before them */
    int clamp_len;          /* as in txl_settings */
    bool same_length;       /* likewise */
    double clip;            /* largest norm of all gradients together; 0: no limit */
    double epsilon;         /* Adam's, above 0 */
    double dropout;         /* share of activations that are dropped, below 1 */
    double dropatt;         /* of attention weights, likewise */
    uint64_t seed;          /* of dropout */
    bool bf16;              /* multiply in bf16 with sums in f32, instead of in f32 */
    int threads;            /* 0: one per processor */
    int forget_every;       /* steps after which the memory becomes as at first; 0: never */
    const txl_peers *peers; /* NULL: this process alone; must outlive the trainer */
    /* The new model's name, 1 to 63 bytes without control characters; NULL: none.  Must outlive
     * the trainer. */
    const char *name;
    /* 0: Adam moves every weight.  Above 0: the layers' matrices follow orthogonalised momentum
     * (Jordan et al. 2024, "Muon"), at this many times Adam's rate, and keep one momentum instead
     * of Adam's two moments. */
    double muon;
    uint64_t reserved[4];
} txl_training;

/* The learning rate rises to lr in `warmup` steps, then falls to lr_min along a cosine. */
typedef struct txl_schedule {
    double lr, lr_min;
    uint64_t warmup;
} txl_schedule;

/* The learning rate of `step`, from 0.  `share`: how much of the run is over, from 0 to 1. */
TXL_API double txl_schedule_rate(const txl_schedule *schedule, uint64_t step, double share);

typedef struct txl_trainer txl_trainer;

/* Makes a trainer with a copy of `model`'s weights, in f32.  The model may be closed afterwards;
 * the ids must outlive the trainer.  A family that cannot be trained is TXL_UNSUPPORTED; memory
 * for an attention type that has none, or a text too short for one token of every stream, is
 * TXL_ARGUMENT. */
TXL_API txl_status txl_trainer_new(const txl_model *model, const txl_ids *ids,
                                   const txl_training *training, txl_trainer **trainer,
                                   txl_error *error);
TXL_API void txl_trainer_free(txl_trainer *trainer);

/* Bytes of memory that such a trainer takes, not counting the text; 0 for a model that cannot be
 * trained, UINT64_MAX for more than 64 bits can count. */
TXL_API uint64_t txl_trainer_bytes(const txl_model *model, const txl_training *training);

/* The least work to train on one token with a full memory: additions and multiplications; 0 for
 * another family. */
TXL_API uint64_t txl_trainer_flops(const txl_model *model, const txl_training *training);

/* What a step found. */
typedef struct txl_step {
    double loss;      /* nats a predicted token, before the update */
    double grad_norm; /* of all gradients, before clipping */
    uint64_t tokens;  /* predicted in this step */
    uint64_t epoch;   /* from 0 */
    uint64_t reserved[4];
} txl_step;

/* Takes one step of Adam, and of Muon if that is chosen, at the learning rate `rate`.  Every stream
 * moves on by tgt_len tokens, or to the end of the epoch; then it begins again with the first
 * memory (txl_model_memory_start).  A loss or gradient that is not finite is TXL_FORMAT: the step
 * updates nothing, and every later step fails too. */
TXL_API txl_status txl_trainer_step(txl_trainer *trainer, double rate, txl_step *step,
                                    txl_error *error);

/* Steps of one epoch. */
TXL_API uint64_t txl_trainer_epoch_steps(const txl_trainer *trainer);

/* Threads that work on a step. */
TXL_API int txl_trainer_threads(const txl_trainer *trainer);

/* Keeps a copy of the current weights as those of the best model so far; it replaces an earlier
 * copy.  With peers, only rank 0 has to. */
TXL_API void txl_trainer_keep(txl_trainer *trainer);

/* Writes the model with the kept weights, as txl_model_write does; without any it is
 * TXL_ARGUMENT. */
TXL_API txl_status txl_trainer_write_kept(txl_trainer *trainer, const char *path, const char *type,
                                          int threads, txl_error *error);

/* Writes everything that the training needs to continue later: weights, moments, memory, place in
 * the text, the kept weights, and `note`, a text of the caller's.  The file at `path` is replaced
 * as a whole or not at all.  Of peers, rank 0 writes. */
TXL_API txl_status txl_trainer_save(const txl_trainer *trainer, const char *path, const char *note,
                                    txl_error *error);

/* A file of txl_trainer_save, read and checked. */
typedef struct txl_saved txl_saved;
TXL_API txl_status txl_saved_open(const char *path, txl_saved **saved, txl_error *error);

/* What the file holds: the caller's note; how the model was trained (threads is 0, peers NULL); and
 * a model of the same shape and vocabulary, but with other weights.  All live as long as
 * `saved`. */
TXL_API const char *txl_saved_note(const txl_saved *saved);
TXL_API void txl_saved_training(const txl_saved *saved, txl_training *training);
TXL_API const txl_model *txl_saved_model(const txl_saved *saved);

/* Makes a trainer that continues where the saved one was: bit for bit, with as many peers as
 * before.  Ids of another text are TXL_ARGUMENT. */
TXL_API txl_status txl_saved_resume(const txl_saved *saved, const txl_ids *ids, int threads,
                                    const txl_peers *peers, txl_trainer **trainer,
                                    txl_error *error);
TXL_API void txl_saved_free(txl_saved *saved);

/* The number of the next step, from 0. */
TXL_API uint64_t txl_trainer_steps(const txl_trainer *trainer);

/* The model as trained so far.  Between two steps it may be scored, sampled from and written; the
 * next step changes it.  It lives as long as the trainer. */
TXL_API const txl_model *txl_trainer_model(txl_trainer *trainer);

/* ---- Training a head: XLNet --------------------------------------------------------------- */

/* Trains a head for sequence classification on the rows of a body, an XLNet, that stays as it is:
 *     logits = L tanh(S x + s) + l
 * where x[d_model] is the last of an input's rows (txl_session_hidden), of <cls>.  S and L begin
 * with normal numbers of deviation 0.02, s and l with 0.  Arithmetic is in f32.  Set every member;
 * zero is a default of `threads`, `decay` and `seed` alone. */
typedef struct txl_head_training {
    int n_label;    /* 2 to 65,536 */
    int batch;      /* rows of a step, at most */
    double rate;    /* Adam's */
    double epsilon; /* Adam's, above 0 */
    double decay;   /* L2: the loss has decay / 2 (|S|^2 + |L|^2) more */
    uint64_t seed;  /* of the first weights */
    int threads;    /* 0: one per processor */
    int padding;    /* 0 */
    uint64_t reserved[4];
} txl_head_training;

typedef struct txl_head_trainer txl_head_trainer;

/* The width of a network's rows. */
TXL_API int txl_model_d_model(const txl_model *model);

/* Makes a trainer of a head for the model.  A Transformer-XL is TXL_UNSUPPORTED. */
TXL_API txl_status txl_head_trainer_new(const txl_model *model, const txl_head_training *training,
                                        txl_head_trainer **trainer, txl_error *error);
TXL_API void txl_head_trainer_free(txl_head_trainer *trainer); /* NULL is fine */

/* Takes one step of Adam on rows[n, d_model], whose labels are labels[n].  *nats receives the mean
 * of -log P(label) before it.  If that is not finite the step updates nothing, and is TXL_FORMAT.
 */
TXL_API txl_status txl_head_trainer_step(txl_head_trainer *trainer, const float *rows,
                                         const int32_t *labels, size_t n, double *nats,
                                         txl_error *error);

/* logits[n, n_label] of rows[n, d_model]. */
TXL_API void txl_head_trainer_logits(txl_head_trainer *trainer, const float *rows, size_t n,
                                     float *logits);

/* Keeps a copy of the head as the best so far; it replaces an earlier copy. */
TXL_API void txl_head_trainer_keep(txl_head_trainer *trainer);

/* Writes `model`, which was opened from a file, with the kept head in the place of any other;
 * everything else is copied as that file has it.  labels[n_label] are UTF-8, 1 to 255 bytes each,
 * without control characters. */
TXL_API txl_status txl_head_trainer_write_kept(const txl_head_trainer *trainer,
                                               const txl_model *model, const char *const *labels,
                                               const char *path, int threads, txl_error *error);

/* Rows are what takes long.  Writes those computed so far, rows[n, width], and `note`, a text of
 * the caller's.  The file at `path` is replaced as a whole or not at all. */
TXL_API txl_status txl_rows_save(const char *path, const char *note, const float *rows, size_t n,
                                 size_t width, txl_error *error);

/* Such a file, read and checked.  What the functions return lives as long as it. */
typedef struct txl_rows txl_rows;
TXL_API txl_status txl_rows_open(const char *path, txl_rows **rows, txl_error *error);
TXL_API const char *txl_rows_note(const txl_rows *rows);
TXL_API const float *txl_rows_get(const txl_rows *rows, size_t *n, size_t *width);
TXL_API void txl_rows_free(txl_rows *rows); /* NULL is fine */

/* ---- Dynamic evaluation ------------------------------------------------------------------- */

/* A learner scores a text segment by segment, and learns from each segment after it has scored it
 * (Krause et al. 2019, "Dynamic Evaluation of Transformer Language Models").  So every score is an
 * honest prediction: it depends only on the tokens before.  Each weight w, which was w0 at first,
 * becomes
 *     sgd    w - rate g
 *     rms    w - rate g / (sqrt(s) + epsilon) - min(1, decay sqrt(s)) (w - w0)
 *     adam   a step of Adam (Kingma and Ba 2015) with decays 0.9 and 0.999
 * where g is the gradient of the mean of a segment's nats, and s is the sum of g squared over the
 * segments of another text, read with the first weights (txl_learner_gather).  The memory keeps the
 * layers' inputs as older weights computed them.  Arithmetic is in f32. */
typedef enum txl_learning_method {
    TXL_LEARNING_SGD,
    TXL_LEARNING_RMS,
    TXL_LEARNING_ADAM
} txl_learning_method;

typedef struct txl_learning {
    txl_learning_method method;
    double rate;    /* 0: only score, as the model is */
    double decay;   /* of rms; else 0 */
    double epsilon; /* of rms and adam: above 0 */
    uint64_t reserved[4];
} txl_learning;

typedef struct txl_learner txl_learner;

/* Makes a learner with a copy of `model`'s weights, in f32; the model may be closed afterwards.  It
 * takes the lengths and threads of `settings`, where all else must be zero.  A family that
 * cannot be trained is TXL_UNSUPPORTED. */
TXL_API txl_status txl_learner_new(const txl_model *model, const txl_settings *settings,
                                   const txl_learning *learning, txl_learner **learner,
                                   txl_error *error);
TXL_API void txl_learner_free(txl_learner *learner);

/* Bytes of memory that such a learner takes; 0 for a model that cannot be trained, UINT64_MAX for
 * more than 64 bits can count. */
TXL_API uint64_t txl_learner_bytes(const txl_model *model, const txl_settings *settings,
                                   const txl_learning *learning);

/* The lengths, and the actual number of threads. */
TXL_API void txl_learner_settings(const txl_learner *learner, txl_settings *settings);

/* Returns to the first weights and the first memory.  Statistics stay. */
TXL_API void txl_learner_start(txl_learner *learner);

/* Scores a segment, then learns from it: 1 <= n <= tgt_len, and a text's segments follow each
 * other.
 *     nats[i] = -log P(targets[i] | everything before, ids[0..i])
 * logprob[n, n_token] receives the log-probabilities of every possible next token after each id;
 * they may differ from nats[] by rounding.  Either may be NULL.  Scores that are no numbers are
 * TXL_FORMAT: nothing is learned from the segment, and the learner can only be started again. */
TXL_API txl_status txl_learner_score(txl_learner *learner, const int32_t *ids, size_t n,
                                     const int32_t *targets, float *nats, float *logprob,
                                     txl_error *error);

/* Reads a segment for the statistics of rms: adds its squared gradients to s, and leaves the
 * weights as they are.  Call txl_learner_start before each text and after the last. */
TXL_API txl_status txl_learner_gather(txl_learner *learner, const int32_t *ids, size_t n,
                                      const int32_t *targets, txl_error *error);

/* Sets elements [first, first + n) of s, for rms, to Adam's second moments from elsewhere; `tensor`
 * is the name of one of the model's tensors.  A tensor that is not learned is ignored.
 * TXL_ARGUMENT: another name or range; TXL_FORMAT: an element is negative or no number. */
TXL_API txl_status txl_learner_set_squares(txl_learner *learner, const char *tensor, uint64_t first,
                                           const float *squares, size_t n, txl_error *error);

/* The norm of the weights' change since the start, over all parameters; tied ones count once. */
TXL_API double txl_learner_drift(const txl_learner *learner);

/* The model as it is now.  Until the next call on the learner it may be scored, sampled from and
 * written.  It lives as long as the learner. */
TXL_API const txl_model *txl_learner_model(txl_learner *learner);

/* Makes a session of that model that continues after the last segment; the current weights project
 * the learner's memory.  The learner must outlive the session, and learn no more before the session
 * is freed. */
TXL_API txl_status txl_learner_session(txl_learner *learner, txl_session **session,
                                       txl_error *error);

/* ---- A cache of the text so far ----------------------------------------------------------- */

/* Counts the tokens of a text after the 0 to 4 tokens before them (characters and bytes: 0 to 8),
 * and mixes the counts with the model's distribution (weights-format.md, "The cache"): what repeats
 * becomes likelier.  Nothing in it depends on the processor but the model's own log-probabilities.
 * It takes 4 bytes a token of the vocabulary, and up to 56 bytes a token of the text, at most 235
 * MB (470 MB); then the older half of the counts is forgotten.  One thread at a time uses a cache.
 */
typedef struct txl_cache txl_cache;

/* Makes an empty cache; the model may be closed afterwards.  An XLNet is TXL_UNSUPPORTED. */
TXL_API txl_status txl_cache_new(const txl_model *model, txl_cache **cache, txl_error *error);
TXL_API void txl_cache_free(txl_cache *cache); /* NULL is fine */

/* Empties it, for another text. */
TXL_API void txl_cache_reset(txl_cache *cache);

/* Turns logprob[n_token], the model's natural logarithms of the next token's probabilities, into
 * those of the mixture. */
TXL_API void txl_cache_mix(txl_cache *cache, float *logprob);

/* The next token is `id`, to which the model gave `logprob`: sets *mixed to the mixture's, learns
 * how much to trust each part, and counts the token.  Without `mixed` only counts it: a text's
 * first token and other context, which no model has predicted. */
TXL_API txl_status txl_cache_add(txl_cache *cache, int32_t id, double logprob, double *mixed,
                                 txl_error *error);

/* ---- Compression -------------------------------------------------------------------------- */

/* A text as few bytes: the better the model predicts it, the fewer.  Any bytes come back as they
 * were, on every machine and in every later version, because the probabilities are computed with
 * TXL_ARITHMETIC_INTEGERS, or of models that it does not cover with TXL_ARITHMETIC_EXACT.
 * Decompressing needs the same model.  The format is in weights-format.md.
 *
 * The text is cut into frames, and a frame into streams, which are read side by side: several are
 * faster than one, and take a little more room because each begins without context.
 * The model must be a Transformer-XL with attention of type 0 or 1 (TXL_UNSUPPORTED). */
#define TXL_MAX_STREAMS 16
#define TXL_STREAM_BYTES (1 << 17) /* of text in a stream at most */

typedef struct txl_compression {
    int streams;     /* at most, in a frame: 1 to TXL_MAX_STREAMS; 0: one per 8 KiB */
    int threads;     /* 0: one per processor */
    uint64_t memory; /* bytes that sessions may take, but always enough for one; 0: half of the
                        machine's.  With less, fewer streams are read side by side without mixing;
                        with it all of a frame are, or the call ends with TXL_MEMORY */
    /* Receives what is compressed, in order; if it returns anything but TXL_OK, the call ends with
     * that status. */
    txl_status (*write)(void *context, const void *bytes, size_t n, txl_error *error);
    /* NULL, or receives the bytes of text read so far, and the bytes that they take, counting a
     * frame that is not yet written.  The call ends with TXL_STOPPED if it returns false. */
    bool (*progress)(void *context, uint64_t text, uint64_t stored);
    void *context;
    bool no_cache; /* without mixing (txl_mixing): larger as a rule, but damage in one stream spares
                      the others */
    uint64_t reserved[7];
} txl_compression;

typedef struct txl_compressor txl_compressor;

/* Makes a compressor; the model must outlive it. */
TXL_API txl_status txl_compressor_new(const txl_model *model, const txl_compression *compression,
                                      txl_compressor **compressor, txl_error *error);

/* Adds to the text.  At most a frame of it is kept, 2 MiB.  After a failure the compressor can only
 * be freed. */
TXL_API txl_status txl_compressor_feed(txl_compressor *compressor, const void *text, size_t n,
                                       txl_error *error);

/* Ends the text: writes the rest, and a trailer.  The compressor is then as new. */
TXL_API txl_status txl_compressor_finish(txl_compressor *compressor, txl_error *error);
TXL_API void txl_compressor_free(txl_compressor *compressor);

/* How a frame mixes the model's predictions with what its text has had (weights-format.md). */
typedef enum txl_mixing {
    TXL_MIXING_NONE = 0,
    TXL_MIXING_LINEAR = 1,  /* by the cache; of vocabularies with bands */
    TXL_MIXING_LOGISTIC = 2 /* by decisions, of all others; the streams have one code */
} txl_mixing;

/* A frame, as its header describes it. */
typedef struct txl_frame {
    uint64_t offset; /* of its text, in bytes from the beginning of the text */
    uint64_t text;   /* bytes of its text */
    uint64_t stored; /* bytes that it takes, with its header */
    int streams;
    int arithmetic;        /* its number: enum txl_arithmetic */
    uint64_t checksum;     /* the model's */
    const char *name;      /* likewise; "" if it has none; alive during the call */
    txl_settings settings; /* the sessions' */
    txl_mixing mixing;
    uint64_t reserved[4];
} txl_frame;

typedef struct txl_decompression {
    int threads;
    uint64_t memory; /* as above */
    bool list;       /* only reads headers: `model` and `write` are not called */
    bool salvage;    /* continues after damage, and calls `lost` */
    /* Finds the model of that checksum, and of that name if it has one.  It must live as long as
     * the decompressor. */
    txl_status (*model)(void *context, uint64_t checksum, const char *name, const txl_model **model,
                        txl_error *error);
    /* Receives the text in order; what it does and returns is as above.  NULL: checks alone. */
    txl_status (*write)(void *context, const void *text, size_t n, txl_error *error);
    bool (*progress)(void *context, uint64_t text, uint64_t stored); /* as above */
    void (*frame)(void *context, const txl_frame *frame); /* NULL, or sees each frame first */
    /* With `salvage`: bytes [begin, end) of the text are lost; `end` is UINT64_MAX if the end of
     * the text is lost, or its length is not known.  If the two are equal, bytes of the file stand
     * there that belong to no text, and `why` says how many. */
    void (*lost)(void *context, uint64_t begin, uint64_t end, const char *why);
    void *context;
    uint64_t reserved[8];
} txl_decompression;

typedef struct txl_decompressor txl_decompressor;

TXL_API txl_status txl_decompressor_new(const txl_decompression *decompression,
                                        txl_decompressor **decompressor, txl_error *error);

/* Adds compressed bytes, of one text or of several one after the other.  Damage is TXL_FORMAT, or
 * goes to `lost`; a file without an intact part is TXL_FORMAT in any case.  Besides the sessions,
 * at most 5 MiB are kept, whatever the bytes are, and with TXL_MIXING_LOGISTIC 46 to 85 MB of what
 * the frame's text has had.  After a failure the decompressor can only be freed. */
TXL_API txl_status txl_decompressor_feed(txl_decompressor *decompressor, const void *bytes,
                                         size_t n, txl_error *error);

/* Ends the bytes.  If they end inside of a text, that is TXL_FORMAT, or goes to `lost`. */
TXL_API txl_status txl_decompressor_finish(txl_decompressor *decompressor, txl_error *error);
TXL_API void txl_decompressor_free(txl_decompressor *decompressor);

/* ---- The machine -------------------------------------------------------------------------- */

/* The name of the kernels (inner loops) in use: "amx", "avx512bf16", "avx512vnni", "avx512",
 * "avx2", "neon" or "generic".  The environment variable TXL_CPU can choose others.  If this
 * processor cannot run its choice, the result is NULL with TXL_ARGUMENT in `error`, and no model
 * can be opened.  The name lives as long as the process. */
TXL_API const char *txl_kernels_name(txl_error *error);

/* The name of the processor core whose kernels OpenBLAS uses; lives as long as the process.
 * OpenBLAS chooses when it is loaded.  Its sgemm multiplies f32 weights with 64 rows of activations
 * and more, in fast arithmetic. */
TXL_API const char *txl_blas_name(void);

/* NULL, or the core that OpenBLAS should use on this processor, because the one in use is slower:
 * OPENBLAS_CORETYPE in the environment names a foreign one, or OpenBLAS takes the processor for an
 * older one, as Debian 12's version does with some.  Products are the library's own then; setting
 * OPENBLAS_CORETYPE to the returned name before the process starts brings sgemm back. */
TXL_API const char *txl_blas_better_core(void);

/* What `threads` threads (0: one per processor) reach at best: bytes/s read from a buffer far
 * larger than the caches, and flop/s of OpenBLAS's sgemm with the shapes of scoring.  Each
 * measurement takes some tenths of a second. */
TXL_API txl_status txl_measure_read_bandwidth(int threads, double *bytes_per_second,
                                              txl_error *error);
TXL_API txl_status txl_measure_sgemm(int threads, double *flops_per_second, txl_error *error);

/* The numbers that a product of many rows multiplies. */
typedef enum txl_products {
    TXL_PRODUCTS_F32 = 0,      /* TXL_COMPUTE_F32, and training in f32 */
    TXL_PRODUCTS_BF16,         /* weights in bf16 with TXL_COMPUTE_BF16 */
    TXL_PRODUCTS_INT8,         /* weights in q8, q5, q4 with TXL_COMPUTE_INT8 */
    TXL_PRODUCTS_TRAINING_BF16 /* training in bf16 */
} txl_products;

/* The peak of such products, in operations a second, two for each product of numbers: that of the
 * processor's multiplying instruction with operands in registers.  *instruction becomes its name,
 * which lives as long as the process: "vdpbf16ps", "vpdpbusd", "vfmadd231ph", "tdpbf16ps",
 * "tdpbssd"; or "sgemm" for products in f32, whose peak is txl_measure_sgemm's. */
TXL_API txl_status txl_measure_products(txl_products products, int threads,
                                        const char **instruction, double *operations_per_second,
                                        txl_error *error);

#ifdef __cplusplus
}
#endif
#endif
