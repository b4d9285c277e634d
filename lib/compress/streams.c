/* Coding streams, a group at a time.  Compressing and decompressing are one loop: the sessions are
 * fed the last tokens, then each stream codes literals up to its next token, and that token. */
#include "streams.h"
#include "lib/base/error.h"
#include "lib/session/session.h"
#include "lossless.h"
#include "range_coder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* How likely a literal is at first, after a token and after a literal, of FLAG_TOTAL. */
enum { LITERAL_AFTER_TOKEN = FLAG_TOTAL / 256, LITERAL_AFTER_LITERAL = FLAG_TOTAL / 2 };

/* Bytes of text after which a stream that has become no shorter is given up. */
enum { TRIAL = 4096 };

/* ---- The coder ---------------------------------------------------------------------------- */

static txl_status open_tables(struct stream_coder *coder, size_t n, txl_error *error) {
    const struct vocabulary *vocabulary = &coder->model->vocabulary;
    const struct bands *bands = &coder->model->network->bands;
    const size_t n_token = bands->band[0].n_token, n_head = bands_entries(bands, 0);
    const size_t most = bands_most_entries(bands);
    txl_status status = token_bytes_open(&coder->table, vocabulary, error);
    if (status)
        return status;
    coder->n_head = n_head;
    coder->head_use = malloc(n_head);
    coder->head = calloc(n * n_head, sizeof *coder->head);
    coder->sum = calloc(n, sizeof *coder->sum);
    coder->band = calloc(most, sizeof *coder->band);
    coder->frequency = calloc(quantised_room(most), sizeof *coder->frequency);
    if (!coder->head_use || !coder->head || !coder->sum || !coder->band || !coder->frequency)
        return txl_fail_memory(error, "frequencies", (n * n_head + most) * sizeof *coder->head);
    memcpy(coder->head_use, coder->table.use, n_token);
    memset(coder->head_use + n_token, TOKEN_USED, n_head - n_token);
    return TXL_OK;
}

static txl_status open_cache(struct stream_coder *coder, txl_error *error) {
    const struct bands *bands = &coder->model->network->bands;
    const size_t n_band = (size_t)bands->n_band, n_token = bands_n_token(bands);
    coder->band_first = calloc(n_band + 1, sizeof *coder->band_first);
    coder->extra = calloc(n_token, sizeof *coder->extra);
    coder->band_extra = calloc(n_band, sizeof *coder->band_extra);
    if (!coder->band_first || !coder->extra || !coder->band_extra)
        return txl_fail_memory(error, "a cache", n_token * sizeof *coder->extra);
    for (size_t i = 0; i < n_band; i++)
        coder->band_first[i] = bands->band[i].first;
    coder->band_first[n_band] = n_token;
    return cache_open(&coder->cache, coder->form.orders, coder->form.cache_pairs, n_band,
                      coder->band_first, error);
}

static txl_status open_tree(struct stream_coder *coder, txl_error *error) {
    const size_t n = (size_t)coder->table.n + 2;
    coder->view.below = calloc(n, sizeof *coder->view.below);
    if (!coder->view.below)
        return txl_fail_memory(error, "frequencies", n * sizeof *coder->view.below);
    return tree_open(&coder->tree, &coder->table, error);
}

/* The first session alone must be there. */
static txl_status open_sessions(struct stream_coder *coder, size_t n, txl_error *error) {
    txl_status status = TXL_OK;
    coder->sessions = calloc(n, sizeof(txl_session *));
    coder->literals = calloc(n, sizeof *coder->literals);
    if (!coder->sessions || !coder->literals)
        return txl_fail_memory(error, "streams", n * sizeof *coder->literals);
    while (coder->n_session < n && !status) {
        txl_session **session = &coder->sessions[coder->n_session];
        status = coder->n_session == 0
                     ? txl_session_new(coder->model, &coder->settings, session, error)
                     : txl_session_copy(coder->sessions[0], session, error);
        coder->n_session += !status;
    }
    return status == TXL_MEMORY && coder->n_session > 0 ? TXL_OK : status;
}

txl_status stream_check_model(const txl_model *model, txl_error *error) {
    const char *file = model->weights->name;
    if (model->family->number != TXL_FAMILY_TRANSFORMER_XL)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: texts are compressed by a Transformer-XL, and this is an XLNet", file);
    if (!model->network->has_memory)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: texts are compressed with attention of type 0 or 1 (attn_type), whose "
                        "positions are distances; this model has type 2 or 3",
                        file);
    return TXL_OK;
}

void stream_set_arithmetic(const txl_model *model, txl_settings *settings) {
    const bool integers = model_has_integers(model);
    settings->arithmetic = integers ? TXL_ARITHMETIC_INTEGERS : TXL_ARITHMETIC_EXACT;
    if (integers)
        settings->memory_type = TXL_MEMORY_Q8;
}

/* Half of the machine's memory in bytes; 0: unknown. */
static uint64_t half_of_memory(void) {
    struct sysinfo machine;
    return sysinfo(&machine) < 0 ? 0 : (uint64_t)machine.totalram * machine.mem_unit / 2;
}

struct frame_form stream_form(const txl_model *model) {
    const struct bands *bands = &model->network->bands;
    if (bands->n_band > 1)
        return (struct frame_form){TXL_MIXING_LINEAR, cache_orders(model), CACHE_PAIRS};
    const bool fits = bands_n_token(bands) <= TREE_MOST_TOKENS;
    return (struct frame_form){.mixing = fits ? TXL_MIXING_LOGISTIC : TXL_MIXING_NONE};
}

txl_status stream_coder_open(struct stream_coder *coder, const txl_model *model,
                             const txl_settings *settings, size_t n, const struct frame_form *form,
                             uint64_t memory, txl_error *error) {
    const uint64_t head = bands_entries(&model->network->bands, 0) * sizeof *coder->head,
                   bytes = txl_session_bytes(model, settings);
    memory = memory > 0 ? memory : half_of_memory();
    if (bytes > UINT64_MAX - head || memory / (bytes + head) < n)
        n = bytes > UINT64_MAX - head ? 1 : (size_t)(memory / (bytes + head));
    n = n > 0 ? n : 1;
    *coder = (struct stream_coder){.model = model, .settings = *settings, .form = *form};
    txl_status status = open_tables(coder, n, error);
    if (!status && form->mixing == TXL_MIXING_LINEAR)
        status = open_cache(coder, error);
    if (!status && form->mixing == TXL_MIXING_LOGISTIC)
        status = open_tree(coder, error);
    return status ? status : open_sessions(coder, n, error);
}

void stream_coder_close(struct stream_coder *coder) {
    token_bytes_close(&coder->table);
    for (size_t i = coder->n_session; i > 0; i--)
        txl_session_free(coder->sessions[i - 1]);
    free(coder->sessions);
    free(coder->literals);
    free(coder->head_use);
    free(coder->head);
    free(coder->sum);
    free(coder->band);
    free(coder->frequency);
    cache_close(&coder->cache);
    free(coder->band_first);
    free(coder->extra);
    free(coder->band_extra);
    free(coder->view.below);
    tree_close(&coder->tree);
    mixing_close(&coder->mixing);
    buffer_free(&coder->code);
    *coder = (struct stream_coder){0};
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static bool has_one_code(const struct stream_coder *coder) {
    return coder->form.mixing == TXL_MIXING_LOGISTIC;
}

/* A stream while it is coded. */
struct run {
    struct stream *stream;
    txl_session *session;
    size_t row;   /* of the head's weights */
    size_t place; /* among the streams that are coded together */
    struct bit_cost cost;
    struct byte_model *literals;
    struct range_encoder encoder;
    struct range_decoder decoder;
    struct flag literal[2]; /* whether a literal comes, after a token and after a literal */
    bool after_literal;
    bool loose;     /* as lossless.h has it, where the text stands */
    size_t done;    /* bytes of text */
    size_t element; /* the next of the text that is compressed */
    int32_t fed;    /* the token to feed next */
    bool codes;     /* that token was coded in this step */
    struct cache_history history;
    struct cache_view view;
    double part[CACHE_PART]; /* of the mixture for that token */
    bool again;              /* it is fed twice */
    bool ended;
};

/* The softmax over band i as frequencies; returns their total. */
static uint64_t softmax_frequencies(struct stream_coder *coder, const struct run *run, int i) {
    const struct band *band = &coder->model->network->bands.band[i];
    const unsigned char *used = i == 0 ? coder->head_use : coder->table.use + band->first;
    const float *e = i == 0 ? coder->head + run->row * coder->n_head : coder->band;
    double sum = coder->sum[run->row];
    if (i > 0)
        session_band_weights(run->session, i, coder->band, &sum);
    const struct rounding before = session_rounding(run->session);
    const uint64_t total =
        quantise(e, i == 0 ? coder->n_head : band->n_token, sum, used, coder->frequency);
    session_restore_rounding(&before);
    return total;
}

/* How a softmax is mixed with the cache, and what the model alone gives to the entry coded. */
struct mixture {
    uint32_t share;
    double scale;   /* of what the cache gives: the band's part of all */
    double model;   /* frequency of the entry, of `total` */
    uint64_t total; /* of the model's frequencies */
    uint64_t mixed; /* frequency of the entry in the mixture */
};

static uint64_t mix_band(struct stream_coder *coder, const struct run *run, int i,
                         const struct mixture *m) {
    const struct cache *cache = &coder->cache;
    const size_t first = coder->band_first[i], n = coder->band_first[i + 1] - first;
    uint64_t total = quantised_mix(coder->frequency, n, m->total, m->share, cache->count + first,
                                   run->view.unit, coder->extra + first, m->scale);
    if (i == 0)
        total += quantised_mix(coder->frequency + n, cache->n_band - 1, m->total, m->share,
                               cache->band_count + 1, run->view.unit, coder->band_extra + 1, 1);
    return total;
}

/* The model's own frequency of an entry that was mixed. */
static uint64_t unmixed(const struct stream_coder *coder, const struct run *run, int i,
                        size_t entry, const struct mixture *m) {
    const struct cache *cache = &coder->cache;
    const size_t first = coder->band_first[i], n = coder->band_first[i + 1] - first;
    const bool cluster = entry >= n;
    const uint32_t *count = cluster ? cache->band_count + 1 : cache->count + first,
                   *extra = cluster ? coder->band_extra + 1 : coder->extra + first;
    const size_t at = cluster ? entry - n : entry;
    const uint32_t part = count[at] * run->view.unit + extra[at];
    return (coder->frequency[entry] - quantised_given(part, m->scale, m->total)) / m->share;
}

/* One entry of the softmax over band i: *entry is coded, or decoded.  False in *good: damage. */
static txl_status code_entry(struct stream_coder *coder, struct run *run, bool decodes, int i,
                             size_t *entry, struct mixture *m, bool *good, txl_error *error) {
    uint64_t *frequency = coder->frequency;
    uint64_t below = 0, total = softmax_frequencies(coder, run, i);
    if (total == 0 && !decodes)
        return session_not_finite(run->session, error);
    m->total = total;
    if (total > 0 && coder->cache.n_order > 0)
        total = mix_band(coder, run, i, m);
    if (!decodes) {
        below = quantised_below(frequency, *entry);
        range_encode(&run->encoder, below, frequency[*entry], total);
    } else {
        const uint64_t place = total > 0 ? range_decode_place(&run->decoder, total) : 0;
        *good = place < total;
        if (!*good)
            return TXL_OK;
        *entry = quantised_find(frequency, place, &below);
        range_decode(&run->decoder, below, frequency[*entry], total);
    }
    m->mixed = frequency[*entry];
    if (coder->cache.n_order > 0)
        m->model = (double)unmixed(coder, run, i, *entry, m);
    return TXL_OK;
}

/* A band's cluster is entry n_token + band - 1 of the head. */
static txl_status code_entries(struct stream_coder *coder, struct run *run, bool decodes,
                               int32_t *id, double *model, bool *good, txl_error *error) {
    const struct bands *bands = &coder->model->network->bands;
    const size_t n_head = bands->band[0].n_token;
    int i = decodes ? 0 : bands_band_of(bands, (size_t)*id);
    size_t entry = i == 0 ? (size_t)*id : n_head + (size_t)i - 1;
    struct mixture m = {.share = run->view.share, .scale = 1};
    txl_status status = code_entry(coder, run, decodes, 0, &entry, &m, good, error);
    if (status || !*good)
        return status;
    *model = m.model / (double)m.total;
    if (decodes)
        i = entry < n_head ? 0 : (int)(entry - n_head) + 1;
    if (i > 0) {
        entry = decodes ? 0 : (size_t)*id - bands->band[i].first;
        /* Of what the cluster has in the mixture, the model's part, and what the cache's becomes.
         */
        const double own = (double)m.share * m.model, all = (double)m.mixed;
        m.scale = (double)m.total * CACHE_ONE / all;
        m.share = (uint32_t)(own * CACHE_ONE / all);
        m.share = m.share > 0 ? m.share : 1;
        status = code_entry(coder, run, decodes, i, &entry, &m, good, error);
        *model = *model * (m.model / (double)m.total);
    }
    *id = (int32_t)(bands->band[i].first + entry);
    return status;
}

static txl_status code_token(struct stream_coder *coder, struct run *run, bool decodes, int32_t *id,
                             bool *good, txl_error *error) {
    const struct cache *cache = &coder->cache;
    double model = 0;
    if (cache->n_order == 0)
        return code_entries(coder, run, decodes, id, &model, good, error);
    const struct rounding before = session_rounding(run->session);
    cache_look(cache, &run->history, &run->view, coder->extra, coder->band_extra);
    txl_status status = code_entries(coder, run, decodes, id, &model, good, error);
    cache_clear(cache, &run->view, coder->extra, coder->band_extra);
    run->codes = !status && *good;
    if (run->codes)
        cache_parts(cache, &run->view, *id, model, run->part);
    session_restore_rounding(&before);
    return status;
}

/* What the streams coded in a step becomes part of the cache. */
static txl_status learn_step(struct stream_coder *coder, struct run *runs, size_t n,
                             txl_error *error) {
    const struct rounding before = session_rounding(runs[0].session);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n; i++)
        if (runs[i].codes)
            cache_learn(&coder->cache, &runs[i].view, runs[i].part);
    for (size_t i = 0; i < n && !status; i++)
        if (runs[i].codes)
            status = cache_count(&coder->cache, &runs[i].history, runs[i].fed, error);
    session_restore_rounding(&before);
    return status;
}

/* ---- Streams ------------------------------------------------------------------------------ */

/* A stream has a byte at least, even of a code that is only zeros. */
static bool end_code(struct range_encoder *encoder) {
    return range_encoder_finish(encoder) &&
           (encoder->out->length > encoder->start || buffer_append(encoder->out, "", 1));
}

static void start_run(const struct stream_coder *coder, struct run *run, struct stream *stream,
                      bool decodes) {
    byte_model_start(run->literals);
    run->stream = stream;
    run->literal[false].share = LITERAL_AFTER_TOKEN;
    run->literal[true].share = LITERAL_AFTER_LITERAL;
    run->loose = true;
    run->fed = txl_model_first_context(coder->model);
    txl_session_reset(run->session);
    if (has_one_code(coder))
        return;
    if (decodes)
        range_decoder_start(&run->decoder, stream->in, stream->n_in);
    else
        range_encoder_start(&run->encoder, &stream->code);
}

txl_status stream_compress_plain(struct stream_coder *coder, struct stream *stream,
                                 txl_error *error) {
    struct byte_model *literals = coder->literals;
    struct flag first = {LITERAL_AFTER_TOKEN}, next = {LITERAL_AFTER_LITERAL};
    struct range_encoder encoder;
    stream->plain.length = 0;
    byte_model_start(literals);
    range_encoder_start(&encoder, &stream->plain);
    for (size_t i = 0; i < stream->size; i++) {
        flag_encode(i == 0 ? &first : &next, &encoder, true);
        byte_encode(literals, &encoder, stream->text[i]);
        if (i < TRIAL)
            stream->plain_trial = stream->plain.length;
    }
    return end_code(&encoder) ? TXL_OK
                              : txl_fail_memory(error, "compressed text", stream->plain.length);
}

/* Adds what an element writes to the text.  False: it does not fit. */
static bool add_text(struct run *run, bool decodes, const char *bytes, size_t n) {
    struct stream *stream = run->stream;
    if (n > stream->size - run->done)
        return false;
    for (size_t i = 0; i < n; i++)
        run->loose = loose_behind(run->loose, (unsigned char)bytes[i]);
    if (decodes)
        memcpy(stream->text + run->done, bytes, n);
    run->done += n;
    return true;
}

/* Codes the flag and the byte of a literal, or only the flag before a token. */
static bool code_literal(struct run *run, bool decodes, bool *literal, unsigned char *byte) {
    struct flag *flag = &run->literal[run->after_literal];
    bool good = true;
    if (decodes)
        good = flag_decode(flag, &run->decoder, literal);
    else
        flag_encode(flag, &run->encoder, *literal);
    run->after_literal = *literal;
    if (good && *literal && decodes)
        good = byte_decode(run->literals, &run->decoder, byte);
    else if (good && *literal)
        byte_encode(run->literals, &run->encoder, *byte);
    return good;
}

static void move_past_token(const struct stream_coder *coder, struct run *run, int32_t id) {
    run->fed = id;
    run->again = coder->model->vocabulary.kind == TXL_LM1B && id == coder->model->vocabulary.eos;
}

/* Codes up to the next token, and that. */
static txl_status code_to_token(struct stream_coder *coder, struct run *run, bool decodes,
                                bool *good, txl_error *error) {
    struct stream *stream = run->stream;
    while (run->done < stream->size && *good) {
        int32_t id = decodes ? 0 : stream->elements[run->element++];
        bool literal = id < 0;
        unsigned char byte = (unsigned char)~id;
        *good = code_literal(run, decodes, &literal, &byte);
        if (*good && literal)
            *good = add_text(run, decodes, (const char *)&byte, 1);
        if (!*good || literal)
            continue;
        txl_status status = code_token(coder, run, decodes, &id, good, error);
        if (status || !*good)
            return status;
        size_t n = 0;
        const char *bytes = token_bytes_at(&coder->table, run->loose, id, &n);
        *good = add_text(run, decodes, bytes, n);
        move_past_token(coder, run, id);
        return TXL_OK;
    }
    return TXL_OK;
}

/* What an element writes; NULL: it is none that comes. */
static const char *element_bytes(const struct stream_coder *coder, const struct run *run,
                                 int32_t element, char *literal, size_t *n) {
    if (element >= 0)
        return token_bytes_at(&coder->table, run->loose, element, n);
    *literal = (char)~element;
    *n = 1;
    return literal;
}

/* The same with what all streams have had: elements up to the next token, and that. */
static txl_status mix_to_token(struct stream_coder *coder, struct run *run, bool decodes,
                               bool *good, txl_error *error) {
    struct stream *stream = run->stream;
    struct bit_coder bits = {.encoder = decodes ? NULL : &coder->encoder,
                             .decoder = &coder->decoder,
                             .cost = &run->cost};
    if (softmax_frequencies(coder, run, 0) == 0) {
        *good = false;
        return decodes ? TXL_OK : session_not_finite(run->session, error);
    }
    tree_view(&coder->tree, coder->frequency, &coder->view);
    while (run->done < stream->size) {
        const int32_t wanted = decodes ? 0 : stream->elements[run->element++],
                      element =
                          mixing_code(&coder->mixing, run->place, &coder->view, &bits, wanted);
        char literal;
        size_t n;
        const char *bytes = element_bytes(coder, run, element, &literal, &n);
        *good = !bits.damaged && bytes && add_text(run, decodes, bytes, n);
        if (!*good)
            return TXL_OK;
        mixing_add(&coder->mixing, element);
        if (element >= 0) {
            move_past_token(coder, run, element);
            return TXL_OK;
        }
    }
    return TXL_OK;
}

/* Bytes of the stream's code so far.  Of one code for all it has a share, and the end at most. */
static size_t code_size(const struct stream_coder *coder, const struct run *run) {
    enum { END = 2 };
    return has_one_code(coder) ? run->cost.doubled / 8 + END : run->stream->code.length;
}

/* Whether what was coded so far is as long as it is without the model.  At the end of a stream that
 * shares a cache, for which all would be coded again, only if it is as long as its text; one that
 * is coded with others has no choice but that. */
static bool is_useless(const struct stream_coder *coder, const struct run *run) {
    const struct stream *stream = run->stream;
    const size_t code = code_size(coder, run), plain = stream->plain.length;
    const bool cached = coder->cache.n_order > 0 && run->ended && stream->size >= TRIAL;
    if (code >= run->done || plain == 0 || cached || has_one_code(coder))
        return code >= run->done;
    return run->ended ? code >= plain : code * TRIAL >= stream->plain_trial * run->done;
}

/* A step of one stream, whose session was fed. */
static txl_status step_run(struct stream_coder *coder, struct run *run, bool decodes,
                           txl_error *error) {
    struct stream *stream = run->stream;
    const size_t before = run->done;
    const bool own = !has_one_code(coder);
    bool good = true;
    run->codes = false;
    if (run->again) {
        run->again = false;
        return TXL_OK;
    }
    txl_status status = own ? code_to_token(coder, run, decodes, &good, error)
                            : mix_to_token(coder, run, decodes, &good, error);
    if (status)
        return status;
    run->ended = !good || run->done == stream->size;
    stream->damaged = !good || (own && decodes && run->ended && !range_decoder_ends(&run->decoder));
    if (own && !decodes && run->ended && !end_code(&run->encoder))
        return txl_fail_memory(error, "compressed text", stream->code.length);
    if (!decodes && (run->ended || (before < TRIAL && run->done >= TRIAL)))
        stream->raw = is_useless(coder, run);
    run->ended = run->ended || stream->raw;
    return TXL_OK;
}

/* Feeds the runs that go on, and counts them. */
static txl_status feed_runs(const struct stream_coder *coder, struct run *runs, size_t n,
                            size_t *n_fed, txl_error *error) {
    txl_session *sessions[MAX_STREAMS];
    int32_t ids[MAX_STREAMS];
    *n_fed = 0;
    for (size_t i = 0; i < n; i++) {
        if (runs[i].ended)
            continue;
        runs[i].row = *n_fed;
        sessions[*n_fed] = runs[i].session;
        ids[(*n_fed)++] = runs[i].fed;
    }
    return session_feed_weights(sessions, *n_fed, ids, coder->head, coder->n_head, coder->sum,
                                error);
}

static txl_status tell_progress(struct stream_coder *coder, const struct run *runs, size_t n,
                                size_t *reported, txl_error *error) {
    size_t done = 0, before = *reported;
    for (size_t i = 0; i < n; i++)
        done += runs[i].stream->raw ? runs[i].stream->size : runs[i].done;
    done = larger(done, before); /* what is coded again is not told again */
    *reported = done;
    return coder->progress && !coder->progress(coder->context, done - before)
               ? txl_fail(error, TXL_STOPPED, "stopped by the caller")
               : TXL_OK;
}

/* What one stream was decoded into from damaged data spoils the others. */
static void spread_damage(struct run *runs, size_t n) {
    bool damaged = false;
    for (size_t i = 0; i < n; i++)
        damaged = damaged || runs[i].stream->damaged;
    for (size_t i = 0; i < n && damaged; i++)
        if (!runs[i].ended)
            runs[i].ended = runs[i].stream->damaged = true;
}

/* Whether all had their trial, or have ended. */
static bool all_tried(const struct run *runs, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!runs[i].ended && runs[i].done < TRIAL)
            return false;
    return true;
}

static bool any_raw(const struct run *runs, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (runs[i].stream->raw)
            return true;
    return false;
}

static txl_status start_group(struct stream_coder *coder, struct run *runs,
                              struct stream *const *streams, size_t n, bool decodes,
                              txl_error *error) {
    size_t sizes[MAX_STREAMS];
    for (size_t i = 0; i < n; i++) {
        runs[i] = (struct run){
            .session = coder->sessions[i], .literals = &coder->literals[i], .place = i};
        start_run(coder, &runs[i], streams[i], decodes);
        sizes[i] = streams[i]->size;
    }
    if (coder->cache.n_order > 0)
        cache_reset(&coder->cache);
    if (!has_one_code(coder))
        return TXL_OK;
    if (decodes)
        range_decoder_start(&coder->decoder, coder->in, coder->n_in);
    else
        range_encoder_start(&coder->encoder, &coder->code);
    return mixing_open(&coder->mixing, &coder->tree, &coder->table, n, sizes, error);
}

/* Ends the one code of all. */
static txl_status end_group(struct stream_coder *coder, struct stream *const *streams, size_t n,
                            bool decodes, txl_error *error) {
    if (!has_one_code(coder))
        return TXL_OK;
    if (!decodes)
        return end_code(&coder->encoder)
                   ? TXL_OK
                   : txl_fail_memory(error, "compressed text", coder->code.length);
    bool damaged = !range_decoder_ends(&coder->decoder);
    for (size_t i = 0; i < n; i++)
        damaged = damaged || streams[i]->damaged;
    for (size_t i = 0; i < n; i++)
        streams[i]->damaged = damaged;
    return TXL_OK;
}

/* A step of all runs that go on. */
static txl_status step_runs(struct stream_coder *coder, struct run *runs, size_t n, bool decodes,
                            txl_error *error) {
    txl_status status = TXL_OK;
    bool damaged = false;
    for (size_t i = 0; i < n && !status && !damaged; i++) {
        if (runs[i].ended)
            continue;
        status = step_run(coder, &runs[i], decodes, error);
        damaged = has_one_code(coder) && runs[i].stream->damaged;
    }
    if (!status && coder->cache.n_order > 0)
        status = learn_step(coder, runs, n, error);
    if (!status && decodes && coder->form.mixing != TXL_MIXING_NONE)
        spread_damage(runs, n);
    return status;
}

/* *again: some streams are raw now, and the others have seen them. */
static txl_status code_group(struct stream_coder *coder, struct stream *const *streams, size_t n,
                             bool decodes, size_t *reported, bool *again, txl_error *error) {
    const bool mixes = coder->form.mixing != TXL_MIXING_NONE;
    struct run runs[MAX_STREAMS] = {{0}};
    size_t n_fed = 1;
    txl_status status = start_group(coder, runs, streams, n, decodes, error);
    for (*again = false; !status && n_fed > 0 && !*again;) {
        status = feed_runs(coder, runs, n, &n_fed, error);
        if (!status)
            status = tell_progress(coder, runs, n, reported, error);
        const bool tried = all_tried(runs, n), raw = any_raw(runs, n);
        coder->settled = tried && !raw;
        *again = mixes && !decodes && tried && raw;
        if (!status && n_fed > 0 && !*again)
            status = step_runs(coder, runs, n, decodes, error);
    }
    if (!status && !*again)
        status = end_group(coder, streams, n, decodes, error);
    mixing_close(&coder->mixing);
    return status;
}

/* All together, and again without those that are raw then. */
static txl_status code_together(struct stream_coder *coder, struct stream *const *streams, size_t n,
                                bool decodes, txl_error *error) {
    struct stream *left[MAX_STREAMS];
    size_t reported = 0;
    txl_status status = TXL_OK;
    if (n > coder->n_session)
        return txl_fail(error, TXL_MEMORY,
                        "out of memory: %zu streams are read together, and %zu of them fit", n,
                        coder->n_session);
    memcpy(left, streams, n * sizeof *left);
    for (bool again = n > 0; again && !status;) {
        coder->code.length = 0;
        for (size_t i = 0; i < n; i++)
            left[i]->code.length = 0;
        status = code_group(coder, left, n, decodes, &reported, &again, error);
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if (!left[i]->raw)
                left[kept++] = left[i];
        n = kept;
        again = again && n > 0;
    }
    coder->code.length = n > 0 ? coder->code.length : 0;
    return status;
}

txl_status streams_code(struct stream_coder *coder, struct stream *const *streams, size_t n,
                        bool decodes, txl_error *error) {
    txl_status status = TXL_OK;
    bool again;
    if (coder->form.mixing != TXL_MIXING_NONE)
        return code_together(coder, streams, n, decodes, error);
    for (size_t done = 0; done < n && !status; done += coder->n_session) {
        const size_t left = n - done, count = left < coder->n_session ? left : coder->n_session;
        size_t reported = 0;
        status = code_group(coder, streams + done, count, decodes, &reported, &again, error);
    }
    return status;
}
