/* The XLNet's row in the table of families. */
#include "family.h"
#include "parameters.h"
#include "timeline.h"

static const struct both_sides both_sides = {
    .block = xlnet_block,
    .block_then_left = xlnet_block_then_left,
    .gaps = xlnet_gaps,
    .ask = xlnet_ask,
    .fill = xlnet_fill,
};

const struct family xlnet_family = {
    .number = TXL_FAMILY_XLNET,
    .name = "xlnet",
    .settings_size = sizeof(struct xlnet_settings),
    .settings = &xlnet_setting_table,
    .check = xlnet_check,
    .parameters = &xlnet_parameters,
    .open = xlnet_open,
    .close = xlnet_close,
    .costs = xlnet_costs,
    .check_session = xlnet_check_session,
    .lay_out = xlnet_lay_out,
    .timeline_bytes = xlnet_timeline_bytes,
    .timeline_open = xlnet_timeline_open,
    .timeline_close = xlnet_timeline_close,
    .reset = xlnet_reset,
    .room = xlnet_room,
    .advance = xlnet_advance,
    .advance_each = xlnet_advance_each,
    .copy = xlnet_copy,
    .first_row = xlnet_first_row,
    .export_row = xlnet_export_row,
    .import_row = xlnet_import_row,
    .both_sides = &both_sides,
};
