/* Finds explanations in the texts within the program. */
#include "topics.h"

#include <string.h>

bool topic_next(const char **text, struct topic *topic) {
    const char *at = *text;
    if (strncmp(at, "@ ", 2) != 0)
        return false;
    topic->name = at + 2;
    topic->n_name = strcspn(topic->name, " \n");
    topic->title = topic->name + topic->n_name;
    topic->title += *topic->title == ' ';
    topic->n_title = strcspn(topic->title, "\n");
    topic->text = topic->title + topic->n_title;
    topic->text += strspn(topic->text, "\n");
    const char *end = strstr(topic->text, "\n@ ");
    end = end ? end + 1 : topic->text + strlen(topic->text);
    *text = end;
    while (end > topic->text && end[-1] == '\n')
        end--;
    topic->n_text = (size_t)(end - topic->text);
    return true;
}

bool topic_find(const char *text, const char *name, size_t length, struct topic *topic) {
    while (text && topic_next(&text, topic))
        if (topic->n_name == length && memcmp(topic->name, name, length) == 0)
            return true;
    return false;
}

bool topic_of_command(const struct command *command, struct topic_place *at, struct topic *topic) {
    if (!at->begun)
        *at = (struct topic_place){command->topics ? command->topics : "",
                                   command->shared ? command->shared : "", true};
    if (topic_next(&at->own, topic))
        return true;
    at->shared += strspn(at->shared, " ");
    const char *name = at->shared;
    const size_t length = strcspn(name, " ");
    at->shared += length;
    return length > 0 && topic_find(shared_topics, name, length, topic);
}
