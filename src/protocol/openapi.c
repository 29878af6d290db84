/* The OpenAPI document: an operation for each route of the table, its parameters and body from the
 * row's arguments. The rules by which arguments become fields are those of http.h.
 *
 * The document is built as a tree. jansson's functions pass a NULL on, so a failed allocation
 * makes the whole document NULL, which is checked once, at the end. */
#include "protocol/openapi.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "kernel/option.h"
#include "protocol/openapi_parts.h"
#include "protocol/table.h"

struct made {
    bool failed;
};

static json_t *parse(struct made *made, const char *text) {
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    made->failed |= value == NULL;
    return value;
}

static json_t *ref_to(const char *kind, const char *name) {
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

static json_t *ref(const char *schema) {
    return ref_to("schemas", schema);
}

static void put(struct made *made, json_t *object, const char *key, json_t *value) {
    made->failed |= json_object_set_new(object, key, value) != 0;
}

static void append(struct made *made, json_t *array, json_t *value) {
    made->failed |= json_array_append_new(array, value) != 0;
}

/* ---- Schemas of arguments ---- */

static void lower(const char *from, char *out, size_t capacity) {
    size_t i = 0;
    for (; from[i] != '\0' && i + 1 < capacity; i++) {
        out[i] = (char)tolower((unsigned char)from[i]);
    }
    out[i] = '\0';
}

static json_t *states(struct made *made) {
    json_t *names = json_array();
    for (unsigned i = KERNEL_RESERVED; i < KERNEL_SHOWN_COUNT; i++) {
        append(made, names, json_string(kernel_state_name((enum kernel_state)i)));
    }
    return json_pack("{s:s, s:o}", "type", "string", "enum", names);
}

static json_t *value_states(struct made *made) {
    json_t *names = json_array();
    for (unsigned i = KERNEL_VALUE_ANY + 1; i < KERNEL_VALUE_STATE_COUNT; i++) {
        append(made, names, json_string(kernel_value_state_name((enum kernel_value_state)i)));
    }
    return json_pack("{s:s, s:o}", "type", "string", "enum", names);
}

static json_t *strings(void) {
    return json_pack("{s:s, s:i, s:{s:s}}", "type", "array", "minItems", 1, "items", "type",
                     "string");
}

static json_t *argument_schema(const struct protocol_argument *argument) {
    switch (argument->bind) {
    case PROTOCOL_B_LEASE:
    case PROTOCOL_B_TARGET:
        return ref("LeaseId");
    case PROTOCOL_B_STATE:
        return ref("State");
    case PROTOCOL_B_VALUE_STATE:
        return ref("ValueState");
    case PROTOCOL_B_META:
    case PROTOCOL_B_PAYLOAD:
    case PROTOCOL_B_SPEC:
        return ref("Json");
    case PROTOCOL_B_CLAIM:
        return json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items", ref("Claim"));
    case PROTOCOL_B_VALUES:
        return strings();
    default:
        break;
    }
    switch (argument->type) {
    case PROTOCOL_T_INTEGER:
        return ref("Number");
    case PROTOCOL_T_DURATION:
        return ref("Duration");
    case PROTOCOL_T_TOKEN:
        return json_pack("{s:s}", "type", "boolean");
    default:
        return json_pack("{s:s}", "type", "string");
    }
}

static json_t *option_schema(struct made *made, enum kernel_option_type type) {
    json_t *words = json_array();
    for (unsigned i = 0; kernel_option_word(type, i) != NULL; i++) {
        append(made, words, json_string(kernel_option_word(type, i)));
    }
    switch (type) {
    case KERNEL_TYPE_FLAG:
        json_decref(words);
        return json_pack("{s:s}", "type", "boolean");
    case KERNEL_TYPE_MICRO:
        json_decref(words);
        return json_pack("{s:[s,s]}", "type", "number", "string");
    case KERNEL_TYPE_NUMBER:
    case KERNEL_TYPE_SECONDS:
        json_decref(words);
        return ref(type == KERNEL_TYPE_NUMBER ? "Value" : "Duration");
    case KERNEL_TYPE_FIELDS:
        json_decref(words);
        return json_pack("{s:s, s:s}", "type", "string", "description",
                         "device_key,device_id,serial,mac,uuid, or some of them in another order");
    default:
        return json_pack("{s:s, s:o}", "type", "string", "enum", words);
    }
}

static void options_put(struct made *made, json_t *properties) {
    put(made, properties, "range",
        json_pack("{s:[o, {s:s, s:o}, {s:s, s:s}]}", "oneOf", ref("Span"), "type", "array", "items",
                  ref("Span"), "type", "string", "description", "lo-hi,lo-hi or address/bits"));
    put(made, properties, "set", json_pack("{s:s}", "type", "boolean"));
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        put(made, properties, kernel_option_rows[i].name,
            option_schema(made, kernel_option_rows[i].type));
    }
    put(made, properties, "exclude",
        json_pack("{s:[{s:s, s:s}, {s:s, s:o}]}", "oneOf", "type", "string", "description",
                  "lo-hi,lo-hi", "type", "array", "items", ref("Span")));
}

/* ---- Parameters and bodies ---- */

/* Whether a path has this parameter. */
static bool path_has(const char *path, const char *name) {
    char braces[64];
    int len = snprintf(braces, sizeof braces, "{%s}", name);
    return len < (int)sizeof braces && strstr(path, braces) != NULL;
}

/* The name of an argument's field. */
static void field_name(const struct protocol_argument *argument, char *out, size_t capacity) {
    if (argument->bind == PROTOCOL_B_TARGET) {
        (void)snprintf(out, capacity, "lease");
    } else {
        lower(argument->token != NULL ? argument->token : argument->name, out, capacity);
    }
}

static void path_parameters(struct made *made, json_t *parameters, const char *path) {
    for (const char *at = strchr(path, '{'); at != NULL; at = strchr(at + 1, '{')) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        json_t *schema =
            strcmp(name, "lease") == 0 ? ref("LeaseId") : json_pack("{s:s}", "type", "string");
        append(made, parameters,
               json_pack("{s:s, s:s, s:b, s:o}", "name", name, "in", "path", "required", 1,
                         "schema", schema));
    }
}

/* Those of a read, or of a DELETE, which has no body. */
static void query_parameters(struct made *made, json_t *parameters,
                             const struct protocol_form *form, const char *path) {
    for (uint32_t i = 0; i < form->count; i++) {
        const struct protocol_argument *argument = &form->arguments[i];
        char name[64];
        field_name(argument, name, sizeof name);
        if (path_has(path, name) || argument->bind == PROTOCOL_B_OPID ||
            argument->bind == PROTOCOL_B_TARGET || argument->bind == PROTOCOL_B_VALUE) {
            continue;
        }
        append(made, parameters,
               json_pack("{s:s, s:s, s:b, s:o}", "name", name, "in", "query", "required",
                         !argument->optional, "schema", argument_schema(argument)));
    }
}

static void property_put(struct made *made, json_t *properties, json_t *required,
                         const struct protocol_argument *argument, const char *path) {
    char name[64];
    field_name(argument, name, sizeof name);
    switch (argument->bind) {
    case PROTOCOL_B_OPTIONS:
        options_put(made, properties);
        return;
    case PROTOCOL_B_AMOUNT:
        put(made, properties, "values",
            json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items", ref("Value")));
        if (argument->type == PROTOCOL_T_ONEOF) {
            put(made, properties, "count", ref("Number"));
        } else {
            append(made, required, json_string("values"));
        }
        return;
    case PROTOCOL_B_VALUES:
        (void)snprintf(name, sizeof name, "names");
        break;
    default:
        break;
    }
    if (argument->bind == PROTOCOL_B_OPID || path_has(path, name)) {
        return;
    }
    put(made, properties, name, argument_schema(argument));
    if (!argument->optional && argument->bind != PROTOCOL_B_BEARER) { /* the header may have it */
        append(made, required, json_string(name));
    }
}

/* NULL if there is nothing to say in a body. */
static json_t *body(struct made *made, const struct protocol_form *form, const char *path) {
    json_t *properties = json_object();
    json_t *required = json_array();
    for (uint32_t i = 0; i < form->count; i++) {
        property_put(made, properties, required, &form->arguments[i], path);
    }
    if (json_object_size(properties) == 0) {
        json_decref(properties);
        json_decref(required);
        return NULL;
    }
    bool needed = json_array_size(required) > 0;
    json_t *schema = json_pack("{s:s, s:b, s:o}", "type", "object", "additionalProperties", 0,
                               "properties", properties);
    if (needed) {
        put(made, schema, "required", required);
    } else {
        json_decref(required);
    }
    return json_pack("{s:b, s:{s:{s:o}}}", "required", needed, "content", "application/json",
                     "schema", schema);
}

/* ---- Answers ---- */

/* AllocReply, PoolCreateReply: each command has a schema of its own, which is one of the shapes in
 * openapi_parts.h. */
static void reply_name(const struct protocol_command *row, char out[3 * PROTOCOL_NAME_MAX]) {
    const char *words[] = {row->word, row->sub};
    size_t len = 0;
    for (unsigned i = 0; i < 2; i++) {
        bool first = true;
        for (const char *at = words[i]; *at != '\0'; at++) {
            if (*at != '-') {
                out[len++] = first ? *at : (char)tolower((unsigned char)*at);
            }
            first = *at == '-';
        }
    }
    (void)snprintf(out + len, 3 * PROTOCOL_NAME_MAX - len, "Reply");
}

static void replies_put(struct made *made, json_t *schemas) {
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        char name[3 * PROTOCOL_NAME_MAX];
        if (row->reply != NULL) {
            reply_name(row, name);
            made->failed |= json_object_get(schemas, row->reply) == NULL;
            put(made, schemas, name, ref(row->reply));
        }
    }
}

static json_t *answer(const struct protocol_command *row, bool also, const char *description) {
    char name[3 * PROTOCOL_NAME_MAX] = "EventEnvelope";
    if (!also || !protocol_command_has(row, PROTOCOL_ENVELOPE)) {
        reply_name(row, name);
    }
    return json_pack("{s:s, s:{s:{s:o}}}", "description", description, "content",
                     "application/json", "schema", row->reply != NULL ? ref(name) : json_object());
}

static bool is_events(const struct protocol_command *row) {
    return strcmp(row->path, "/v1/events") == 0;
}

/* Whether a success may be 201; *ret_always: it always is. */
static bool creates(const struct protocol_command *row, bool also, bool *ret_always) {
    *ret_always = also && protocol_command_has(row, PROTOCOL_ENVELOPE);
    return *ret_always || protocol_command_has(row, PROTOCOL_CREATES) ||
           protocol_command_has(row, PROTOCOL_GRANTS);
}

static json_t *answers(struct made *made, const struct protocol_command *row, bool also) {
    json_t *responses = json_object();
    json_t *done = answer(row, also, "Done");
    bool always;
    if (is_events(row)) {
        put(made, json_object_get(done, "content"), "text/event-stream",
            json_pack("{s:{s:s, s:s}}", "schema", "type", "string", "description",
                      "A stream of events: id, event and data, which is an Event"));
    }
    if (creates(row, also, &always)) {
        json_t *created = answer(row, also, "Created; Location is its path, if it has one");
        put(made, created, "headers",
            json_pack("{s:{s:{s:s}}}", "Location", "schema", "type", "string"));
        put(made, responses, "201", created);
    }
    if (always) {
        json_decref(done);
    } else {
        put(made, responses, "200", done);
    }
    for (unsigned i = 0; i < 2; i++) {
        put(made, responses, i == 0 ? "4XX" : "5XX", ref_to("responses", "Problem"));
    }
    return responses;
}

/* ---- Operations ---- */

static bool takes_bearer(const struct protocol_command *row, const struct protocol_form *form) {
    if (protocol_command_has(row, PROTOCOL_BEARER)) {
        return true;
    }
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].bind == PROTOCOL_B_BEARER) {
            return true;
        }
    }
    return false;
}

/* The credentials of an operation, if they are not those of the whole document: a run's own token, or
 * none. */
static void security_put(struct made *made, json_t *operation, const struct protocol_command *row,
                         const struct protocol_form *form) {
    if (row->role != PROTOCOL_NOBODY) {
        return;
    }
    put(made, operation, "security",
        takes_bearer(row, form) ? json_pack("[{s:[]}, {}]", "leaseToken") : json_array());
}

/* Whether the path is one of Attune's. */
static bool is_api(const char *path) {
    return strncmp(path, "/api/v1/", 8) == 0;
}

/* What distinguishes a second route from the first. */
static const char *also_name(const struct protocol_command *row) {
    if (row->other.count > 0) {
        return "_bundle";
    }
    if (is_api(row->also_path)) {
        return "_api";
    }
    return strstr(row->also_path, "{value}") != NULL ? "_of_value" : "_by_delete";
}

/* alloc, pool_create, alloc_bundle. */
static void operation_id(const struct protocol_command *row, bool also,
                         char out[3 * PROTOCOL_NAME_MAX]) {
    char word[PROTOCOL_NAME_MAX];
    char sub[PROTOCOL_NAME_MAX];
    lower(row->word, word, sizeof word);
    lower(row->sub, sub, sizeof sub);
    (void)snprintf(out, 3 * PROTOCOL_NAME_MAX, "%s%s%s%s", word, sub[0] != '\0' ? "_" : "", sub,
                   also ? also_name(row) : "");
}

static json_t *description(const struct protocol_command *row, const struct protocol_form *form) {
    char usage[1024];
    if (!protocol_usage_write(row, form, usage, sizeof usage)) {
        return NULL;
    }
    return json_sprintf("Needs the role %s. Over RESP: `%s`",
                        protocol_role_name((enum protocol_role)row->role), usage);
}

static json_t *operation(struct made *made, const struct protocol_command *row, bool also) {
    const struct protocol_form *form = protocol_command_form(row, also);
    const char *path = also ? row->also_path : row->path;
    const char *method = also ? row->also_method : row->method;
    char id[3 * PROTOCOL_NAME_MAX];
    char tag[32];
    operation_id(row, also, id);
    const char *version = is_api(path) ? path + 4 : path;
    if (strncmp(version, "/v1/", 4) == 0 && strncmp(version, "/v1/auth", 8) != 0) {
        (void)snprintf(tag, sizeof tag, "%.*s", (int)strcspn(version + 4, "/"), version + 4);
    } else {
        (void)snprintf(tag, sizeof tag, "tokens");
    }
    json_t *parameters = json_array();
    json_t *request = NULL;
    path_parameters(made, parameters, path);
    if (strcmp(method, "GET") == 0 || strcmp(method, "DELETE") == 0) {
        query_parameters(made, parameters, form, path);
    } else {
        request = body(made, form, path);
    }
    if (row->kind == PROTOCOL_WRITE) {
        append(made, parameters, ref_to("parameters", "IdempotencyKey"));
    }
    if (is_events(row)) {
        append(made, parameters, ref_to("parameters", "LastEventId"));
        append(made, parameters, ref_to("parameters", "EventFormat"));
        append(made, parameters, ref_to("parameters", "EventChannel"));
    }
    json_t *made_operation =
        json_pack("{s:s, s:[s], s:s, s:o, s:o, s:o}", "operationId", id, "tags", tag, "summary",
                  row->summary, "description", description(row, form), "parameters", parameters,
                  "responses", answers(made, row, also));
    if (request != NULL) {
        put(made, made_operation, "requestBody", request);
    }
    security_put(made, made_operation, row, form);
    return made_operation;
}

static void paths_put(struct made *made, json_t *paths) {
    for (unsigned i = 0; i < 2 * PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i / 2];
        bool also = i % 2 == 1;
        const char *name = also ? row->also_method : row->method;
        const char *path = also ? row->also_path : row->path;
        char method[16];
        if (name == NULL) {
            continue;
        }
        if (json_object_get(paths, path) == NULL) {
            put(made, paths, path, json_object());
        }
        lower(name, method, sizeof method);
        put(made, json_object_get(paths, path), method, operation(made, row, also));
    }
}

static json_t *components_make(struct made *made) {
    json_t *schemas = parse(made, openapi_schemas);
    put(made, schemas, "State", states(made));
    put(made, schemas, "ValueState", value_states(made));
    replies_put(made, schemas);
    return json_pack("{s:o, s:o, s:o, s:o}", "schemas", schemas, "parameters",
                     parse(made, openapi_parameters), "responses", parse(made, openapi_responses),
                     "securitySchemes", parse(made, openapi_security_schemes));
}

char *protocol_openapi_make(const char *version, size_t *ret_len) {
    struct made made = {.failed = false};
    json_t *paths = json_object();
    json_t *fixed = parse(&made, openapi_paths);
    paths_put(&made, paths);
    made.failed |= json_object_update(paths, fixed) != 0;
    json_decref(fixed);
    json_t *components = components_make(&made);
    json_t *info = json_pack("{s:s, s:s, s:s, s:{s:s, s:s}}", "title", "Tenure", "version", version,
                             "description", OPENAPI_ABOUT, "license", "name", "Apache 2.0",
                             "identifier", "Apache-2.0");
    json_t *root = json_pack(
        "{s:s, s:o, s:[{s:s}], s:o, s:o, s:o}", "openapi", "3.1.0", "info", info, "servers", "url",
        "/", "security", parse(&made, openapi_security), "paths", paths, "components", components);
    char *text = made.failed || root == NULL ? NULL : json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    *ret_len = text != NULL ? strlen(text) : 0;
    return text;
}
