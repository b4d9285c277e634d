/* Results: derived numbers, JSON, text, the summary line. */
#include "result.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "cli/model/dynamic.h"
#include "cli/options/options.h"
#include "lib/base/error.h"
#include "table_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uniwidth.h>

/* ---- The run ------------------------------------------------------------------------------ */

bool evaluated_set(struct evaluated *evaluated, const struct model *model,
                   const txl_settings *settings, const struct run_settings *run) {
    char summary[8192];
    settings_to_text(summary, sizeof summary, model, settings, run);
    *evaluated = (struct evaluated){
        .name = model->name, .settings = json_object(), .summary = strdup(summary)};
    if (!evaluated->summary || !settings_to_json(evaluated->settings, model, settings, run)) {
        terminal_error("out of memory");
        evaluated_free(evaluated);
        return false;
    }
    return true;
}

void evaluated_free(struct evaluated *evaluated) {
    json_decref(evaluated->settings);
    free(evaluated->summary);
    *evaluated = (struct evaluated){0};
}

/* ---- Numbers ------------------------------------------------------------------------------ */

void result_add(struct result *total, const struct result *result) {
    score_merge(&total->score, &result->score);
    divergence_merge(&total->divergence, &result->divergence);
    total->tokens += result->tokens;
    total->unknown += result->unknown;
    total->invalid += result->invalid;
    total->seconds += result->seconds;
}

static double nats_per_token(const struct score *score) {
    return score->nats / (double)score->predicted;
}

double result_nats_per_token(const struct result *result) {
    return nats_per_token(&result->score);
}

/* Ids stand for no text. */
static bool knows_characters(const struct result *result) {
    return result->score.share.characters > 0;
}

/* Bits per character as papers report them: per token if a token is a character, else per character
 * that the scored tokens stand for; NAN if these are not known, as with ids. */
static double bits_per_character(const struct setup *setup, const struct result *result,
                                 const struct score *score) {
    if (!setup->words)
        return nats_per_token(score) / LN_2;
    return knows_characters(result) ? score->nats / LN_2 / (double)result->score.share.characters
                                    : NAN;
}

static double bits_per_byte(const struct result *result, const struct score *score) {
    uint64_t bytes = result->score.share.bytes;
    return bytes > 0 ? score->nats / LN_2 / (double)bytes : NAN;
}

/* The headline of either model's score. */
static struct headline make_headline(const struct setup *setup, const struct result *result,
                                     const struct score *score) {
    double nats = nats_per_token(score), error = score_standard_error(score);
    if (setup->words && !(setup->pieces && knows_characters(result)))
        return (struct headline){true, exp(nats), exp(nats) * error};
    double per_token =
        setup->words ? (double)score->predicted / (double)result->score.share.characters : 1;
    return (struct headline){false, bits_per_character(setup, result, score),
                             error / LN_2 * per_token};
}

struct headline result_headline(const struct setup *setup, const struct result *result) {
    return make_headline(setup, result, &result->score);
}

const char *headline_name(const struct headline *headline) {
    return headline->is_perplexity ? "perplexity" : "bits per character";
}

double result_tokens_per_second(const struct result *result) {
    return (double)result->score.predicted / result->seconds;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *count_or_null(uint64_t value, bool known) {
    return known ? json_integer((json_int_t)value) : json_null();
}

static bool add_score(json_t *o, const struct setup *setup, const struct result *result,
                      const struct score *score) {
    double nats = nats_per_token(score);
    return output_json_append(
        o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "nats", output_json_number(score->nats),
                     "nats_per_token", output_json_number(nats), "perplexity",
                     output_json_number(exp(nats)), "bits_per_token",
                     output_json_number(nats / LN_2), "bits_per_character",
                     output_json_number(bits_per_character(setup, result, score)), "bits_per_byte",
                     output_json_number(bits_per_byte(result, score)), "standard_error",
                     output_json_number(score_standard_error(score))));
}

/* exp(nats / words), as lm-evaluation-harness has it. */
static double word_perplexity(const struct score *score) {
    return exp(score->nats / (double)score->share.words);
}

/* Without the tokens that are <unk>; NAN if the number of characters is not known. */
static double known_bits_per_character(const struct setup *setup, const struct score *score) {
    uint64_t n = setup->words ? score->known.characters : score->known.predicted;
    return n > 0 ? score->known.nats / LN_2 / (double)n : NAN;
}

/* What the result is per white-space word, and without the tokens that are <unk>; null if there is
 * no <unk>. */
static bool add_words(json_t *o, const struct setup *setup, const struct score *score) {
    bool known = setup->replaces_unknown;
    double nats = score->known.nats, n = (double)score->known.predicted;
    return output_json_append(
        o,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "word_perplexity",
                  output_json_number(word_perplexity(score)), "known_predicted",
                  count_or_null(score->known.predicted, known), "known_characters",
                  count_or_null(score->known.characters, known && !setup->ids), "known_nats",
                  output_json_number(known ? nats : NAN), "perplexity_without_unknown",
                  output_json_number(known ? exp(nats / n) : NAN), "bits_per_token_without_unknown",
                  output_json_number(known ? nats / LN_2 / n : NAN),
                  "bits_per_character_without_unknown",
                  output_json_number(known ? known_bits_per_character(setup, score) : NAN)));
}

/* The part of the object that is the other model's. */
static json_t *comparison_to_json(const struct setup *setup, const struct result *result) {
    json_t *o = json_pack("{s:o}", "model", output_json_string(setup->other.name));
    return output_json_if(add_score(o, setup, result, &result->divergence.other) &&
                              divergence_to_json(o, &result->divergence) &&
                              json_object_set(o, "settings", setup->other.settings) == 0,
                          o);
}

json_t *result_to_json(const struct setup *setup, const struct result *result) {
    const struct score *score = &result->score;
    json_t *o = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "file",
                          result->file ? output_json_string(result->file) : json_null(), "tokens",
                          (json_int_t)result->tokens, "predicted", (json_int_t)score->predicted,
                          "unknown", count_or_null(result->unknown, !setup->ids), "invalid",
                          count_or_null(result->invalid, !setup->ids), "bytes",
                          count_or_null(score->share.bytes, !setup->ids), "characters",
                          count_or_null(score->share.characters, !setup->ids), "words",
                          count_or_null(score->share.words, !setup->ids));
    bool good =
        add_score(o, setup, result, score) && add_words(o, setup, score) &&
        output_json_append(o, json_pack("{s:o, s:o}", "seconds",
                                        output_json_number(result->seconds), "tokens_per_second",
                                        output_json_number(result_tokens_per_second(result))));
    if (setup->dynamic)
        good =
            good && json_object_set_new(
                        o, "dynamic",
                        dynamic_to_json(setup->dynamic, result->file ? result->drift : NAN)) == 0;
    good = good && json_object_set(o, "settings", setup->model.settings) == 0;
    if (setup->published)
        good =
            good && json_object_set_new(o, "published", output_json_string(setup->published)) == 0;
    if (setup->other.name)
        good = good && json_object_set_new(o, "compare", comparison_to_json(setup, result)) == 0;
    return output_json_if(good, o);
}

/* ---- Text --------------------------------------------------------------------------------- */

const char *result_name(const struct result *result) {
    if (!result->file)
        return "total";
    return strcmp(result->file, "-") == 0 ? "standard input" : result->file;
}

/* exp(nats) with a decimal or two; it may be more than a double holds: 14.2, 1,234.5, 1.82e+667. */
static struct grouped exponential(double nats) {
    struct grouped to;
    const double value = exp(nats), power = floor(nats / 2.302585092994045684);
    if (isfinite(value))
        return grouped(value, value < 9.995 ? 2 : value < 999999 ? 1 : 0);
    snprintf(to.text, sizeof to.text, "%.2fe+%.0f", exp(nats - power * 2.302585092994045684),
             power);
    return to;
}

/* The lines of one result: the first begins with its name, the others below what follows it, or all
 * are below a name that is long. */
struct block {
    const char *name; /* NULL: it has been printed */
    int indent;
};

__attribute__((format(printf, 2, 3))) static bool print_line(struct block *block,
                                                             const char *format, ...) {
    enum { LONG = 40 };
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return output_lacks_memory();
    bool good = true;
    if (block->name) {
        int width = u8_strwidth((const uint8_t *)block->name, "UTF-8");
        block->indent = width <= LONG ? width + 3 : 4;
        good = width <= LONG ? output_line("%s   %s", block->name, text)
                             : output_line("%s", block->name) && output_line("    %s", text);
        block->name = NULL;
    } else {
        good = output_line("%*s%s", block->indent, "", text);
    }
    free(text);
    return good;
}

/* "1.308 bits per character (standard error 0.019)"; the number as it is without <unk> follows
 * where there are any. */
static bool print_headline(struct block *block, const struct setup *setup,
                           const struct result *result) {
    const struct score *score = &result->score;
    const struct headline headline = result_headline(setup, result);
    const struct estimate shown = estimate(headline.value, headline.error);
    const uint64_t unknown = score->predicted - score->known.predicted;
    char known[96] = "";
    if (unknown > 0 && score->known.predicted > 0) {
        const double rest = headline.is_perplexity
                                ? exp(score->known.nats / (double)score->known.predicted)
                                : known_bits_per_character(setup, score);
        snprintf(known, sizeof known, ", %s without %" PRIu64 " unknown token%s",
                 estimate(rest, headline.error).value, unknown, plural(unknown));
    }
    return print_line(block,
                      headline.is_perplexity ? "perplexity %s%s%s" : "%s bits per character%s%s",
                      shown.value, shown.error, known);
}

/* "perplexity 150.2 per word, 21.9 per subword" */
static bool print_perplexity(struct block *block, const struct setup *setup,
                             const struct result *result) {
    const struct score *score = &result->score;
    const double nats = nats_per_token(score);
    if (result_headline(setup, result).is_perplexity)
        return print_line(block, "%.3f nats per token", nats);
    if (!setup->pieces)
        return print_line(block, "perplexity %s per token", exponential(nats).text);
    if (score->share.words == 0)
        return print_line(block, "perplexity %s per subword", exponential(nats).text);
    return print_line(block, "perplexity %s per word, %s per subword",
                      exponential(score->nats / (double)score->share.words).text,
                      exponential(nats).text);
}

/* "3,706 subwords = 2,283 words = 12,620 characters; the first subword is not scored" */
static bool print_counts(struct block *block, const struct setup *setup,
                         const struct result *result) {
    const struct share *share = &result->score.share;
    const uint64_t predicted = result->score.predicted,
                   left = result->tokens > predicted ? result->tokens - predicted : 0;
    const char *unit = setup->pieces ? "subword" : "token";
    char words[64] = "", characters[64] = "", rest[96] = "";
    if (!setup->ids && share->words > 0)
        snprintf(words, sizeof words, " = %s word%s", grouped((double)share->words, 0).text,
                 plural(share->words));
    if (!setup->ids && share->characters > 0)
        snprintf(characters, sizeof characters, " = %s character%s",
                 grouped((double)share->characters, 0).text, plural(share->characters));
    if (left == 1 && result->file)
        snprintf(rest, sizeof rest, "; the first %s is not scored", unit);
    else if (left > 0)
        snprintf(rest, sizeof rest, "; %s more %s not scored", grouped((double)left, 0).text,
                 left == 1 ? "is" : "are");
    return print_line(block, "%s %s%s%s%s%s", grouped((double)predicted, 0).text, unit,
                      plural(predicted), words, characters, rest);
}

/* "built-in (q8), segment 128, memory 192, no clamp; 2,781 subwords/s" */
static bool print_settings(struct block *block, const struct setup *setup,
                           const struct result *result) {
    static const char *const ways[][2] = {{"items", ", each text alone"},
                                          {"lines", ", each line alone"},
                                          {"sliding", ", in a sliding window"},
                                          {"both-sides", ", from both sides"}};
    const json_t *settings = setup->model.settings;
    const json_int_t tgt_len = json_integer_value(json_object_get(settings, "tgt_len")),
                     mem_len = json_integer_value(json_object_get(settings, "mem_len")),
                     clamp_len = json_integer_value(json_object_get(settings, "clamp_len"));
    const char *type = json_string_value(json_object_get(settings, "type")), *way = "";
    char clamp[32] = "no clamp";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(setup->mode, ways[i][0]) == 0)
            way = ways[i][1];
    if (clamp_len >= 0)
        snprintf(clamp, sizeof clamp, "clamp %" JSON_INTEGER_FORMAT, clamp_len);
    return print_line(block,
                      "%s (%s), segment %" JSON_INTEGER_FORMAT ", memory %" JSON_INTEGER_FORMAT
                      ", %s%s%s; %s %ss/s",
                      setup->model.name, type ? type : "-", tgt_len, mem_len, clamp, way,
                      setup->dynamic ? ", learning as it reads" : "",
                      grouped(result_tokens_per_second(result), 0).text,
                      setup->pieces ? "subword" : "token");
}

/* What the two models differ by, and the other's number. */
static bool print_comparison(struct block *block, const struct setup *setup,
                             const struct result *result) {
    const struct divergence *d = &result->divergence;
    const double n = (double)d->difference.predicted, mean = d->difference.mean;
    const struct estimate difference = estimate(fabs(mean), score_standard_error(&d->difference));
    const struct headline other = make_headline(setup, result, &d->other);
    const struct estimate shown = estimate(other.value, other.error);
    return print_line(block, "difference %c%s nats per token%s, KL divergence %.6f",
                      mean < 0 ? '-' : '+', difference.value, difference.error, d->kl / n) &&
           print_line(block,
                      "same most likely token %.2f %%, largest difference %+.5f at token %" PRIu64,
                      100 * (double)d->agreed / n, d->largest, d->largest_index) &&
           print_line(block,
                      other.is_perplexity ? "by %s: perplexity %s%s"
                                          : "by %s: %s bits per character%s",
                      setup->other.name, shown.value, shown.error);
}

bool result_print_text(const struct setup *setup, const struct result *result) {
    struct block block = {.name = result_name(result)};
    return print_headline(&block, setup, result) && print_perplexity(&block, setup, result) &&
           print_counts(&block, setup, result) &&
           (!setup->other.name || print_comparison(&block, setup, result)) &&
           (!setup->published ||
            print_line(&block, "the paper has %s, on its test set", setup->published)) &&
           ((setup->several && result->file) || print_settings(&block, setup, result)) &&
           output_flush();
}

void result_note_unknown(const struct setup *setup, const struct result *result) {
    if (result->unknown > 0) {
        terminal_note("%s: %" PRIu64 " symbol%s that the vocabulary lacks %s %s",
                      result_name(result), result->unknown, plural(result->unknown),
                      result->unknown == 1 ? "was" : "were",
                      setup->replaces_unknown ? "replaced" : "left out");
    }
}

/* ---- The summary line --------------------------------------------------------------------- */

/* "1.19325", or "-" where the number has no meaning. */
struct shown {
    char text[40];
};

static struct shown show(double value) {
    struct shown shown;
    snprintf(shown.text, sizeof shown.text, isfinite(value) ? "%.6f" : "-", value);
    return shown;
}

static void print_other_summary(const struct setup *setup, const struct result *total) {
    const struct divergence *divergence = &total->divergence;
    double nats = nats_per_token(&divergence->other);
    double n = (double)divergence->difference.predicted;
    terminal_summary("compared: nats_per_token=%s perplexity=%s difference=%s kl_divergence=%s "
                     "top_agreement=%.6f mode=%s text=%s %s",
                     show(nats).text, show(exp(nats)).text, show(divergence->difference.mean).text,
                     show(divergence->kl / n).text, (double)divergence->agreed / n, setup->mode,
                     setup->text, setup->other.summary);
}

/* Not where the lines of the result are on the terminal too. */
static void print_brief(const struct setup *setup, const struct result *total) {
    if (setup->in_table || isatty(STDOUT_FILENO))
        return;
    const struct headline headline = result_headline(setup, total);
    if (setup->other.name)
        terminal_brief("difference %+.6f nats per token, %" PRIu64 " token%s, %.0f tokens/s",
                       total->divergence.difference.mean, total->score.predicted,
                       plural(total->score.predicted), result_tokens_per_second(total));
    else
        terminal_brief("%s %.5f, %" PRIu64 " token%s, %.0f tokens/s", headline_name(&headline),
                       headline.value, total->score.predicted, plural(total->score.predicted),
                       result_tokens_per_second(total));
}

void result_print_summary(const struct setup *setup, int n_files, const struct result *total) {
    double nats = result_nats_per_token(total);
    if (setup->other.name)
        print_other_summary(setup, total);
    print_brief(setup, total);
    terminal_summary("files=%d tokens=%" PRIu64 " predicted=%" PRIu64 " unknown=%" PRIu64
                     " nats_per_token=%s perplexity=%s bits_per_token=%s bits_per_character=%s "
                     "seconds=%.2f tokens_per_second=%.0f mode=%s text=%s %s",
                     n_files, total->tokens, total->score.predicted, total->unknown,
                     show(nats).text, show(exp(nats)).text, show(nats / LN_2).text,
                     show(bits_per_character(setup, total, &total->score)).text, total->seconds,
                     result_tokens_per_second(total), setup->mode, setup->text,
                     setup->model.summary);
}

int result_check_limit(const struct setup *setup, const struct result *result, double limit) {
    if (isnan(limit) || result->score.predicted == 0)
        return STATUS_OK;
    const struct headline headline = result_headline(setup, result);
    if (headline.is_perplexity && setup->pieces) {
        terminal_error("--fail-above %.15g: bits per character cannot be computed, because the "
                       "number of scored characters is unknown",
                       limit);
        return STATUS_FAILURE;
    }
    if (headline.value <= limit)
        return STATUS_OK;
    terminal_error("%s %.5f is above %.15g", headline_name(&headline), headline.value, limit);
    return STATUS_FAILURE;
}
