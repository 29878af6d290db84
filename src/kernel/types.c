/* The kernel's tables of names, limits and options, and the texts of values. All pure. */
#include "kernel/types.h"

#include "base/decimal.h"

static const char *const state_names[KERNEL_SHOWN_COUNT] = {
    [KERNEL_NO_STATE] = "",
#define STATE_NAME(id, text) [KERNEL_##id] = text,
    KERNEL_STATE_TABLE(STATE_NAME)
#undef STATE_NAME
        [KERNEL_OVERDUE] = "overdue",
};

static const char *const reason_names[KERNEL_REASON_COUNT] = {
#define REASON_NAME(id, text) [KERNEL_REASON_##id] = text,
    KERNEL_REASON_TABLE(REASON_NAME)
#undef REASON_NAME
};

const struct kernel_limit_row kernel_limit_rows[KERNEL_LIMIT_COUNT] = {
#define LIMIT_ROW(id, text, usual, smallest, largest) \
    [KERNEL_LIMIT_##id] = {.name = text, .standard = usual, .low = smallest, .high = largest},
    KERNEL_LIMIT_TABLE(LIMIT_ROW)
#undef LIMIT_ROW
};

const struct kernel_option_row kernel_option_rows[KERNEL_OPTION_COUNT] = {
#define OPTION_ROW(id, text, kind, usual, largest) \
    [KERNEL_OPTION_##                              \
        id] = {.name = text, .type = KERNEL_TYPE_##kind, .standard = usual, .high = largest},
    KERNEL_OPTION_TABLE(OPTION_ROW)
#undef OPTION_ROW
};

const char *kernel_state_name(enum kernel_state state) {
    return (unsigned)state < KERNEL_SHOWN_COUNT ? state_names[state] : "?";
}

const char *kernel_value_state_name(enum kernel_value_state state) {
    static const char *const names[KERNEL_VALUE_STATE_COUNT] = {
#define VALUE_STATE_NAME(id, text) [KERNEL_VALUE_##id] = text,
        KERNEL_VALUE_STATE_TABLE(VALUE_STATE_NAME)
#undef VALUE_STATE_NAME
    };
    bool known = state > KERNEL_VALUE_ANY && state < KERNEL_VALUE_STATE_COUNT;
    return known ? names[state] : "?";
}

const char *kernel_reason_name(enum kernel_reason reason) {
    return (unsigned)reason < KERNEL_REASON_COUNT ? reason_names[reason] : "?";
}

struct kernel_limits kernel_limits_default(void) {
    struct kernel_limits limits;
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        limits.of[i] = kernel_limit_rows[i].standard;
    }
    return limits;
}

enum kernel_limit kernel_limits_bad(const struct kernel_limits *limits) {
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        if (limits->of[i] < kernel_limit_rows[i].low || limits->of[i] > kernel_limit_rows[i].high) {
            return (enum kernel_limit)i;
        }
    }
    return KERNEL_LIMIT_COUNT;
}

struct kernel_policy kernel_policy_default(void) {
    struct kernel_policy policy = {0};
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        policy.of[i] = kernel_option_rows[i].standard;
    }
    return policy;
}

static bool name_char(uint8_t c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
}

static bool name_word(const uint8_t *at, uint32_t len) {
    if (len == 0 || len > KERNEL_POOL_BASE_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < len; i++) {
        if (!name_char(at[i])) {
            return false;
        }
    }
    return true;
}

struct tn_bytes kernel_name_pool_base(struct tn_bytes name, bool *ret_scoped) {
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] == '@') {
            *ret_scoped = true;
            return (struct tn_bytes){.at = name.at, .len = i};
        }
    }
    *ret_scoped = false;
    return name;
}

bool kernel_name_pool_valid(struct tn_bytes name, bool scope_allowed) {
    bool scoped;
    struct tn_bytes base = kernel_name_pool_base(name, &scoped);
    if (!name_word(base.at, base.len)) {
        return false;
    }
    return !scoped || (scope_allowed && name_word(base.at + base.len + 1, name.len - base.len - 1));
}

bool kernel_name_resource_valid(struct tn_bytes name) {
    if (name.len == 0 || name.len > KERNEL_RESOURCE_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] <= ' ' || name.at[i] >= 0x7f || name.at[i] == '/') {
            return false;
        }
    }
    return true;
}

bool kernel_name_user_valid(struct tn_bytes name) {
    if (name.len == 0 || name.len > KERNEL_USER_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] <= ' ' || name.at[i] >= 0x7f || name.at[i] == ':') {
            return false;
        }
    }
    return true;
}

static int digit_of(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Digits only, no sign, no space; false on overflow. */
static bool parse_digits(struct tn_bytes text, unsigned base, uint64_t *ret_number) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.at[i]);
        if (digit < 0 || (unsigned)digit >= base ||
            __builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit, &number)) {
            return false;
        }
    }
    *ret_number = number;
    return text.len > 0;
}

/* Six pairs of hex digits with colons between them. */
static bool parse_mac(struct tn_bytes text, uint64_t *ret_number) {
    if (text.len != 17) {
        return false;
    }
    uint64_t number = 0;
    for (uint32_t i = 0; i < 17; i++) {
        if (i % 3 == 2) {
            if (text.at[i] != ':') {
                return false;
            }
            continue;
        }
        int digit = digit_of(text.at[i]);
        if (digit < 0) {
            return false;
        }
        number = number << 4 | (uint64_t)digit;
    }
    *ret_number = number;
    return true;
}

/* Four decimal numbers without leading zeros, which others read as octal. */
static bool parse_ipv4(struct tn_bytes text, uint64_t *ret_number) {
    uint64_t number = 0;
    uint32_t at = 0;
    for (unsigned part = 0; part < 4; part++) {
        uint32_t begin = at;
        uint64_t value = 0;
        while (at < text.len && at - begin < 3 && text.at[at] >= '0' && text.at[at] <= '9') {
            value = value * 10 + (uint64_t)(text.at[at++] - '0');
        }
        bool padded = at - begin > 1 && text.at[begin] == '0';
        if (at == begin || padded || value > 255 ||
            (part < 3 && (at == text.len || text.at[at++] != '.'))) {
            return false;
        }
        number = number << 8 | value;
    }
    if (at != text.len) {
        return false;
    }
    *ret_number = number;
    return true;
}

bool kernel_value_parse(enum kernel_format format, struct tn_bytes text, uint64_t *ret_number) {
    if (format == KERNEL_MAC) {
        return parse_mac(text, ret_number);
    }
    if (format == KERNEL_IPV4) {
        return parse_ipv4(text, ret_number);
    }
    if (format == KERNEL_HEX) {
        if (text.len > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x') {
            text = (struct tn_bytes){.at = text.at + 2, .len = text.len - 2};
        }
        return parse_digits(text, 16, ret_number);
    }
    return parse_digits(text, 10, ret_number);
}

uint32_t kernel_value_format(enum kernel_format format, uint64_t number,
                             char out[KERNEL_VALUE_TEXT_MAX]) {
    static const char digits[] = "0123456789abcdef";
    char reversed[KERNEL_VALUE_TEXT_MAX];
    uint32_t n = 0;
    if (format == KERNEL_DEC) {
        n = tn_decimal(number, out);
        out[n] = '\0';
        return n;
    }
    if (format == KERNEL_IPV4) {
        for (unsigned part = 4; part > 0; part--) {
            n += tn_decimal(number >> (8 * (part - 1)) & 255, out + n);
            out[n++] = part > 1 ? '.' : '\0';
        }
        return n - 1;
    }
    if (format == KERNEL_MAC) {
        for (unsigned i = 0; i < 12; i++) {
            reversed[n++] = digits[number >> (4 * i) & 15];
            if (i % 2 == 1 && i < 11) {
                reversed[n++] = ':';
            }
        }
    } else {
        do {
            reversed[n++] = digits[number & 15];
            number >>= 4;
        } while (number > 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = reversed[n - 1 - i];
    }
    out[n] = '\0';
    return n;
}
