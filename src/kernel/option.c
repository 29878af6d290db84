/* Pool options as text: numbers, words and spans. */
#include "kernel/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"

#define MICRO 1000000u

static const char *const kind_names[] = {"range", "set"};
static const char *const strategy_names[] = {"lowest", "random", "next", "coldest"};
static const char *const format_names[] = {"dec", "hex", "mac", "ipv4"};
static const char *const fallback_names[] = {"none", "json"};
static const char *const identity_names[] = {"device_key", "device_id", "serial", "mac", "uuid"};
static const char *const flag_names[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

struct option_words {
    const char *const *of;
    unsigned count;
};

/* The words that a type's numbers are written as; none for numbers. */
static struct option_words option_words(enum kernel_option_type type) {
    switch (type) {
    case KERNEL_TYPE_KIND:
        return (struct option_words){kind_names, 2};
    case KERNEL_TYPE_STRATEGY:
        return (struct option_words){strategy_names, 4};
    case KERNEL_TYPE_FORMAT:
        return (struct option_words){format_names, KERNEL_FORMAT_COUNT};
    case KERNEL_TYPE_FALLBACK:
        return (struct option_words){fallback_names, 2};
    case KERNEL_TYPE_FLAG:
        return (struct option_words){flag_names, 8};
    default:
        return (struct option_words){NULL, 0};
    }
}

const char *kernel_option_word(enum kernel_option_type type, unsigned i) {
    struct option_words words = option_words(type);
    return i < words.count ? words.of[i] : NULL;
}

const char *kernel_identity_name(enum kernel_identity_field field) {
    return identity_names[field - 1];
}

enum kernel_identity_field kernel_identity_field_at(uint64_t fields, unsigned i) {
    uint64_t field = fields == 0 ? i + 1 : fields >> (i * KERNEL_IDENTITY_BITS) & 15;
    return field <= KERNEL_IDENTITY_LAST ? (enum kernel_identity_field)field : 0;
}

static uint64_t identity_find(const char *text, size_t len) {
    for (uint64_t i = 1; i <= KERNEL_IDENTITY_LAST; i++) {
        const char *name = identity_names[i - 1];
        if (strlen(name) == len && memcmp(name, text, len) == 0) {
            return i;
        }
    }
    return 0;
}

/* "mac,serial", each at most once. The default order is 0 however it is written. */
static bool identity_parse(const char *text, uint64_t *ret_fields) {
    uint64_t fields = 0, seen = 0, standard = 0;
    for (unsigned i = 0; i < KERNEL_IDENTITY_LAST; i++) {
        size_t len = strcspn(text, ",");
        uint64_t field = identity_find(text, len);
        if (field == 0 || (seen >> field & 1) != 0) {
            return false;
        }
        seen |= (uint64_t)1 << field;
        fields |= field << (i * KERNEL_IDENTITY_BITS);
        text += len;
        if (*text == '\0') {
            break;
        }
        text++;
    }
    for (unsigned i = 0; i < KERNEL_IDENTITY_LAST; i++) {
        standard |= (uint64_t)(i + 1) << (i * KERNEL_IDENTITY_BITS);
    }
    *ret_fields = fields == standard ? 0 : fields;
    return *text == '\0';
}

static void identity_format(uint64_t fields, char *out, size_t capacity) {
    size_t used = 0;
    for (unsigned i = 0; i < KERNEL_IDENTITY_LAST && used < capacity; i++) {
        enum kernel_identity_field field = kernel_identity_field_at(fields, i);
        if (field == 0) {
            return;
        }
        used += (size_t)snprintf(out + used, capacity - used, "%s%s", i > 0 ? "," : "",
                                 kernel_identity_name(field));
    }
}

/* Decimal, 0x and hexadecimal digits, a MAC address or an IPv4 address. */
static bool number_parse(const char *text, size_t len, uint64_t *ret_number) {
    struct tn_bytes bytes = tn_bytes_of(text, len);
    if (memchr(text, ':', len) != NULL) {
        return kernel_value_parse(KERNEL_MAC, bytes, ret_number);
    }
    if (memchr(text, '.', len) != NULL) {
        return kernel_value_parse(KERNEL_IPV4, bytes, ret_number);
    }
    if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        return kernel_value_parse(KERNEL_HEX, bytes, ret_number);
    }
    return kernel_value_parse(KERNEL_DEC, bytes, ret_number);
}

bool kernel_micro_parse(const char *text, uint64_t *ret_micro) {
    size_t len = strcspn(text, ".");
    uint64_t whole;
    uint64_t part = 0;
    if (!number_parse(text, len, &whole) || whole > UINT64_MAX / MICRO - 1) {
        return false;
    }
    if (text[len] == '.') {
        const char *digits = text + len + 1;
        size_t count = strlen(digits);
        if (count == 0 || count > 6 || strspn(digits, "0123456789") != count) {
            return false;
        }
        for (size_t i = 0; i < 6; i++) {
            part = part * 10 + (i < count ? (unsigned)(digits[i] - '0') : 0);
        }
    }
    *ret_micro = whole * MICRO + part;
    return true;
}

static bool option_parse(enum kernel_option_type type, const char *text, uint64_t *ret_number) {
    struct option_words words = option_words(type);
    for (unsigned i = 0; i < words.count; i++) {
        if (strcmp(text, words.of[i]) == 0) {
            *ret_number = type == KERNEL_TYPE_FLAG ? i % 2 : i;
            return true;
        }
    }
    if (words.count > 0) {
        return false;
    }
    struct tn_bytes bytes = tn_bytes_of(text, strlen(text));
    switch (type) {
    case KERNEL_TYPE_MICRO:
        return kernel_micro_parse(text, ret_number);
    case KERNEL_TYPE_SECONDS:
        return tn_duration_parse(bytes, ret_number);
    case KERNEL_TYPE_FIELDS:
        return identity_parse(text, ret_number);
    default:
        return number_parse(text, bytes.len, ret_number);
    }
}

/* Parses "10.0.0.0/24". A bit behind the prefix is an error, because another span may have been
 * meant. */
static bool prefix_parse(const char *text, size_t len, size_t slash, struct kernel_span *ret_span) {
    uint64_t bits;
    uint64_t lo;
    if (!kernel_value_parse(KERNEL_IPV4, tn_bytes_of(text, slash), &lo) ||
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(text + slash + 1, len - slash - 1), &bits) ||
        bits > 32) {
        return false;
    }
    uint64_t rest = ((uint64_t)1 << (32 - bits)) - 1;
    *ret_span = (struct kernel_span){.lo = lo, .hi = lo | rest};
    return (lo & rest) == 0;
}

/* "10-20", "30" or "10.0.0.0/24". */
static bool span_parse(const char *text, size_t len, struct kernel_span *ret_span) {
    const char *dash = memchr(text, '-', len);
    const char *slash = memchr(text, '/', len);
    if (slash != NULL) {
        return prefix_parse(text, len, (size_t)(slash - text), ret_span);
    }
    size_t first = dash != NULL ? (size_t)(dash - text) : len;
    if (!number_parse(text, first, &ret_span->lo)) {
        return false;
    }
    ret_span->hi = ret_span->lo;
    return dash == NULL || number_parse(dash + 1, len - first - 1, &ret_span->hi);
}

/* Appends spans such as "10-20,30,10.0.0.0/24", in any order. False: one of them is not a span, or
 * there are too many. */
static bool spans_parse(const char *text, struct kernel_span *spans, uint64_t most,
                        uint64_t *count) {
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        if (*count == most || !span_parse(text, len, &spans[*count])) {
            return false;
        }
        ++*count;
        text += len + (text[len] == ',');
    }
    return true;
}

static bool exclude_set(const char *text, struct kernel_policy_patch *patch, char *detail) {
    patch->values.exclude_count = 0;
    patch->has_exclude =
        spans_parse(text, patch->values.exclude, KERNEL_EXCLUDES_MAX, &patch->values.exclude_count);
    if (!patch->has_exclude) {
        (void)snprintf(detail, KERNEL_OPTION_DETAIL,
                       "exclude: at most %u spans such as 10-20,30 or 10.0.0.0/28",
                       KERNEL_EXCLUDES_MAX);
    }
    return patch->has_exclude;
}

bool kernel_range_is_whole(struct tn_bytes word) {
    for (uint32_t i = 0; i < word.len; i++) {
        if (word.at[i] == '-' || word.at[i] == '/' || word.at[i] == ',') {
            return true;
        }
    }
    return false;
}

bool kernel_range_add(const char *text, struct kernel_policy_patch *patch, char *detail) {
    struct kernel_policy *values = &patch->values;
    if (!patch->has_spans) {
        values->span_count = 0;
    }
    if (*text == '\0' || !spans_parse(text, values->spans, KERNEL_SPANS_MAX, &values->span_count)) {
        (void)snprintf(detail, KERNEL_OPTION_DETAIL,
                       "range: '%.40s' is not LO-HI or ADDRESS/BITS, or there are more than %u "
                       "spans",
                       text, KERNEL_SPANS_MAX);
        return false;
    }
    patch->has_spans = true;
    values->of[KERNEL_OPTION_KIND] = KERNEL_RANGE;
    patch->mask |= (uint32_t)1 << KERNEL_OPTION_KIND;
    return true;
}

static unsigned option_find(const char *name) {
    if (strcmp(name, "base_lease_seconds") == 0 || strcmp(name, "offline_hold_days") == 0) {
        return KERNEL_OPTION_LEASE; /* other words for it on sticky pools */
    }
    unsigned i = 0;
    while (i < KERNEL_OPTION_COUNT && strcmp(name, kernel_option_rows[i].name) != 0) {
        i++;
    }
    return i;
}

/* What an option takes, for people: it completes "'x' is not ...". */
static void option_form(const char *name, const struct kernel_option_row *row, char *out,
                        size_t capacity) {
    struct option_words words = option_words(row->type);
    uint64_t low =
        row->type == KERNEL_TYPE_FLAG ? 2 : words.count; /* the rest are other spellings */
    size_t used = 0;
    if (strcmp(name, "offline_hold_days") == 0) {
        (void)snprintf(out, capacity, "a whole number of days, at most %" PRIu64,
                       row->high / 86400);
        return;
    }
    for (uint64_t i = 0; i < low && used < capacity; i++) {
        used += (size_t)snprintf(out + used, capacity - used, "%s%s",
                                 i == 0 ? "" : (i + 1 == low ? " or " : ", "), words.of[i]);
    }
    if (words.count > 0) {
        return;
    }
    switch (row->type) {
    case KERNEL_TYPE_MICRO:
        (void)snprintf(out, capacity, "a number from 0 to %" PRIu64 ", with up to six decimals",
                       row->high / MICRO);
        break;
    case KERNEL_TYPE_SECONDS:
        (void)snprintf(out, capacity, "%s", TN_DURATION_FORM);
        break;
    case KERNEL_TYPE_FIELDS:
        (void)snprintf(out, capacity, "a list of device_key, device_id, serial, mac, uuid");
        break;
    default:
        (void)snprintf(out, capacity, "a whole number from 0 to %" PRIu64, row->high);
        break;
    }
}

bool kernel_option_set(const char *name, const char *text, struct kernel_policy_patch *patch,
                       char *detail) {
    uint64_t number = 0;
    if (strcmp(name, "exclude") == 0) {
        return exclude_set(text, patch, detail);
    }
    if (strcmp(name, "range") == 0) {
        patch->has_spans = false;
        return kernel_range_add(text, patch, detail);
    }
    unsigned i = option_find(name);
    if (i == KERNEL_OPTION_COUNT) {
        (void)snprintf(detail, KERNEL_OPTION_DETAIL, "unknown option '%.60s'", name);
        return false;
    }
    const struct kernel_option_row *row = &kernel_option_rows[i];
    bool days = strcmp(name, "offline_hold_days") == 0;
    uint64_t unit = days ? 86400 : 1;
    bool read = option_parse(days ? KERNEL_TYPE_NUMBER : row->type, text, &number);
    if (read && number > row->high / unit && row->type == KERNEL_TYPE_SECONDS && !days) {
        (void)snprintf(detail, KERNEL_OPTION_DETAIL, "%s: at most %" PRIu64 " seconds", name,
                       row->high);
        return false;
    }
    if (!read || number > row->high / unit) {
        char form[KERNEL_OPTION_DETAIL];
        option_form(name, row, form, sizeof form);
        (void)snprintf(detail, KERNEL_OPTION_DETAIL, "%s: '%.40s' is not %.100s", name, text, form);
        return false;
    }
    patch->values.of[i] = number * unit;
    patch->mask |= (uint32_t)1 << i;
    return true;
}

/* ---- Writing ---- */

void kernel_fault_format(uint64_t fault, char *out, size_t capacity) {
    bool named = (fault & ((1u << KERNEL_FAULT_BITS) - 1)) == KERNEL_FAULT_NOT_STICKY;
    (void)snprintf(out, capacity, "%s%s%s",
                   named ? kernel_option_name((unsigned)(fault >> KERNEL_FAULT_BITS)) : "",
                   named ? " " : "", kernel_fault_text(fault));
}

/* As much of the text as fits; returns its length. Replies are full of options, and snprintf is slow. */
static size_t text_put(char *out, size_t capacity, const char *text) {
    TN_ASSERT(capacity > 0);
    size_t len = strlen(text);
    len = len < capacity ? len : capacity - 1;
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

/* So that number_parse reads the same number. */
static void number_format(const struct kernel_policy *policy, uint64_t number, char *out,
                          size_t capacity) {
    enum kernel_format format = (enum kernel_format)policy->of[KERNEL_OPTION_FORMAT];
    char text[KERNEL_VALUE_TEXT_MAX];
    (void)kernel_value_format(format, number, text);
    size_t used = text_put(out, capacity, format == KERNEL_HEX ? "0x" : "");
    (void)text_put(out + used, capacity - used, text);
}

static void spans_format(const struct kernel_policy *policy, const struct kernel_span *spans,
                         uint64_t count, char *out, size_t capacity) {
    size_t used = 0;
    out[0] = '\0';
    for (uint64_t i = 0; i < count && used + 1 < capacity; i++) {
        char lo[KERNEL_VALUE_TEXT_MAX + 2];
        char hi[KERNEL_VALUE_TEXT_MAX + 2];
        number_format(policy, spans[i].lo, lo, sizeof lo);
        number_format(policy, spans[i].hi, hi, sizeof hi);
        const char *parts[] = {i > 0 ? "," : "", lo, "-", hi};
        for (unsigned part = 0; part < 4; part++) {
            used += text_put(out + used, capacity - used, parts[part]);
        }
    }
}

void kernel_option_show(const struct kernel_policy *policy, unsigned option, char *out,
                        size_t capacity) {
    char digits[KERNEL_VALUE_TEXT_MAX];
    TN_ASSERT(option < KERNEL_OPTION_ALL && capacity > 0);
    if (option == KERNEL_OPTION_EXCLUDE) {
        spans_format(policy, policy->exclude, policy->exclude_count, out, capacity);
        return;
    }
    if (option == KERNEL_OPTION_SPANS) {
        struct kernel_span one = {policy->of[KERNEL_OPTION_LO], policy->of[KERNEL_OPTION_HI]};
        bool several = policy->span_count > 0;
        spans_format(policy, several ? policy->spans : &one, several ? policy->span_count : 1, out,
                     capacity);
        return;
    }
    uint64_t number = policy->of[option];
    enum kernel_option_type type = kernel_option_rows[option].type;
    struct option_words words = option_words(type);
    if (number < words.count) {
        (void)text_put(out, capacity, words.of[number]);
    } else if (option == KERNEL_OPTION_LO || option == KERNEL_OPTION_HI) {
        number_format(policy, number, out, capacity);
    } else if (type == KERNEL_TYPE_FIELDS) {
        identity_format(number, out, capacity);
    } else if (type == KERNEL_TYPE_MICRO) {
        (void)snprintf(out, capacity, "%" PRIu64 ".%06" PRIu64, number / MICRO, number % MICRO);
    } else {
        (void)kernel_value_format(KERNEL_DEC, number, digits);
        (void)text_put(out, capacity, digits);
    }
}

bool kernel_option_format(const struct kernel_policy *policy, const char *name, char *out,
                          size_t capacity) {
    for (unsigned option = 0; option < KERNEL_OPTION_ALL; option++) {
        if (strcmp(name, kernel_option_name(option)) == 0) {
            kernel_option_show(policy, option, out, capacity);
            return true;
        }
    }
    if (strcmp(name, "offline_hold_days") == 0) {
        (void)snprintf(out, capacity, "%" PRIu64, policy->of[KERNEL_OPTION_LEASE] / 86400);
        return true;
    }
    if (option_find(name) == KERNEL_OPTION_COUNT) {
        return false;
    }
    kernel_option_show(policy, option_find(name), out, capacity);
    return true;
}
