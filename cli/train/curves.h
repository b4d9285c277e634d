/* The course of a training, for its report.  The state keeps it, so that the report of a resumed
 * run shows all of it. */
#ifndef CLI_CURVES_H
#define CLI_CURVES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The most points; steps are joined to points so that there are not more. */
enum { CURVE_POINTS = 512 };

struct curves {
    struct curve_point {
        uint64_t steps; /* number of steps: `window` for all points but the last */
        double nats;    /* nats a token, summed over the steps */
        double rate;    /* learning rate of the last step */
    } point[CURVE_POINTS];
    size_t n;
    uint64_t window;     /* steps of a point; 0: none has come yet */
    json_t *evaluations; /* [{step, nats (a token), bits, text}], with null for missing values */
};

/* The functions below return false when memory is short. */

bool curves_init(struct curves *curves);
void curves_add_step(struct curves *curves, double nats, double rate);

/* Adds an evaluation after `step` steps.  `nats` and `bits` NAN: nothing was measured; `text` NULL:
 * nothing was written. */
bool curves_add_evaluation(struct curves *curves, uint64_t step, double nats, double bits,
                           const char *text);
void curves_free(struct curves *curves);

/* The points as [[steps so far, nats a token, rate]], of single objects for the note of a state
 * [[steps, sum of nats, rate]].  NULL when memory is short. */
json_t *curves_points(const struct curves *curves);
json_t *curves_to_json(const struct curves *curves);

/* Reads the result of curves_to_json.  False if it is none. */
bool curves_from_json(struct curves *curves, const json_t *json);

#endif
