/* Opens sessions with the settings that the command line gives. */
#include "session.h"

#include "cli/system/terminal.h"

const char *const memory_types[] = {"f32", "f16", "bf16", NULL};
const char *const session_computes[] = {"type", "int8", NULL};
const char *const arithmetics[] = {"fast", "exact", NULL};
const char *const train_computes[] = {"f32", "bf16", NULL};

void settings_override(txl_settings *settings, const struct session_options *options,
                       const struct common_options *common) {
    if (options->tgt_len != INTEGER_UNSET)
        settings->tgt_len = (int)options->tgt_len;
    if (options->mem_len != INTEGER_UNSET)
        settings->mem_len = (int)options->mem_len;
    if (options->clamp_len != INTEGER_UNSET)
        settings->clamp_len = (int)options->clamp_len;
    if (options->same_length != CHOICE_UNSET)
        settings->same_length = options->same_length == ANSWER_YES;
    if (options->memory_type != CHOICE_UNSET)
        settings->memory_type = (txl_memory_type)options->memory_type;
    if (options->compute != CHOICE_UNSET)
        settings->compute = (txl_compute)options->compute;
    if (options->arithmetic != CHOICE_UNSET)
        settings->arithmetic = (txl_arithmetic)options->arithmetic;
    settings->threads = (int)common->threads;
}

bool session_open(const struct model *model, const txl_settings *settings, txl_session **session) {
    txl_error error;
    if (txl_session_new(model->handle, settings, session, &error)) {
        terminal_error("%s", error.message);
        return false;
    }
    return true;
}
