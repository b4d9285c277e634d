/* Reads and writes the settings of a model of any family. */
#include "family.h"
#include "lib/base/json_memory.h"

txl_status family_read_settings(const struct family *family, const json_t *object, const char *name,
                                txl_status failure, void *settings, txl_error *error) {
    txl_status status = settings_read(&settings_of_lengths, object, name, failure, settings, error);
    if (!status)
        status = settings_read(family->settings, object, name, failure, settings, error);
    return status ? status : family->check(settings, name, failure, error);
}

char *family_settings_text(const struct family *family, const void *settings) {
    json_t *object = json_pack("{s:s}", "family", family->name);
    bool good = object && settings_write(&settings_of_text, settings, object) &&
                settings_write(family->settings, settings, object) &&
                settings_write(&settings_of_lengths, settings, object);
    char *text = good ? json_text(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    return text;
}
