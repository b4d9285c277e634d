/* How a training has gone so far: what its report shows.  It is kept in the state, so that a run
 * that was interrupted shows all of it. */
#ifndef CLI_CURVES_H
#define CLI_CURVES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Steps become points of as many steps each as keep their number below that. */
enum { CURVE_POINTS = 512 };

struct curves {
    struct curve_point {
        uint64_t steps; /* in it, of which all but the last point has `window` */
        double nats;    /* a token, their sum over the steps */
        double rate;    /* of the last one */
    } point[CURVE_POINTS];
    size_t n;
    uint64_t window;     /* steps of a point; 0: none has come yet */
    json_t *evaluations; /* [{step, nats (a token), bits, text}], null what there is not */
};

/* All of these return false when memory is short. */

bool curves_init(struct curves *curves);
void curves_add_step(struct curves *curves, double nats, double rate);

/* After step `step`.  `nats` and `bits` NAN: nothing was measured; `text` NULL: nothing was
 * written.
 */
bool curves_add_evaluation(struct curves *curves, uint64_t step, double nats, double bits,
                           const char *text);
void curves_free(struct curves *curves);

/* The points as [[steps so far, nats a token, rate]], of single objects for the note of a state
 * [[steps, sum of nats, rate]].  NULL when memory is short. */
json_t *curves_points(const struct curves *curves);
json_t *curves_to_json(const struct curves *curves);

/* Takes what curves_to_json gave.  False when it is none. */
bool curves_from_json(struct curves *curves, const json_t *json);

#endif
