/* Running txl help and txl man. */
#include "explain.h"

#include "cli/commands.h"
#include "cli/system/output.h"

const struct option_row explain_options[] = {PLAIN_ROWS, {0}};

const struct operand_row explain_operands[] = {
    {.name = "COMMAND", .help = "the command to explain", .optional = true, .commands = true}, {0}};

int explain(const struct command *command, const struct operands *operands, void (*all)(void),
            void (*one)(const struct command *topic)) {
    const struct command *topic = operands->n > 0 ? command_find(operands->items[0]) : NULL;
    if (topic)
        one(topic);
    else if (operands->n > 0)
        return command_unknown(command, operands->items[0]);
    else
        all();
    return output_finish(STATUS_OK);
}
