/* The Transformer-XL's row in the table of families. */
#include "family.h"
#include "parameters.h"
#include "timeline.h"

const struct family transformer_xl_family = {
    .number = TXL_FAMILY_TRANSFORMER_XL,
    .name = "transformer-xl",
    .settings_size = sizeof(struct transformer_xl_settings),
    .settings = &transformer_xl_setting_table,
    .check = transformer_xl_check,
    .parameters = &transformer_xl_parameters,
    .open = transformer_xl_open,
    .close = transformer_xl_close,
    .costs = transformer_xl_costs,
    .check_session = transformer_xl_check_session,
    .lay_out = transformer_xl_lay_out,
    .timeline_bytes = transformer_xl_timeline_bytes,
    .timeline_open = transformer_xl_timeline_open,
    .timeline_close = transformer_xl_timeline_close,
    .reset = transformer_xl_reset,
    .room = transformer_xl_room,
    .advance = transformer_xl_advance,
    .advances_alone = transformer_xl_advances_alone,
    .advance_each = transformer_xl_advance_each,
    .copy = transformer_xl_copy,
    .first_row = transformer_xl_first_row,
    .export_row = transformer_xl_export_row,
    .import_row = transformer_xl_import_row,
};
