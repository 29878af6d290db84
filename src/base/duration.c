#include "base/duration.h"

#define MS 1000u

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

/* The seconds of a unit; 0 if the letter is none. */
static uint64_t unit_seconds(uint8_t letter) {
    switch (letter | 0x20) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 60 * 60;
    case 'd':
        return 24 * 60 * 60;
    default:
        return 0;
    }
}

/* The digits at the start; returns how many there are, 0 if the number is too large. */
static uint32_t digits_take(struct tn_bytes text, uint64_t *ret_number) {
    uint64_t number = 0;
    uint32_t at = 0;
    for (; at < text.len && is_digit(text.at[at]); at++) {
        uint64_t digit = (uint64_t)(text.at[at] - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
    }
    *ret_number = number;
    return at;
}

/* ".25": 250. False if there is no digit or one too many. */
static bool decimals_take(struct tn_bytes text, uint64_t *ret_ms) {
    uint64_t ms = 0;
    if (text.len < 2 || text.len > 4 || text.at[0] != '.') {
        return false;
    }
    for (uint32_t i = 1; i < 4; i++) {
        if (i < text.len && !is_digit(text.at[i])) {
            return false;
        }
        ms = ms * 10 + (i < text.len ? (uint64_t)(text.at[i] - '0') : 0);
    }
    *ret_ms = ms;
    return true;
}

bool tn_duration_parse_ms(struct tn_bytes text, uint64_t *ret_ms) {
    uint64_t number;
    uint64_t unit = 1;
    uint64_t fraction = 0;
    uint32_t digits = digits_take(text, &number);
    struct tn_bytes rest = tn_bytes_of(text.at + digits, text.len - digits);
    if (digits == 0) {
        return false;
    }
    if (rest.len == 1) {
        unit = unit_seconds(rest.at[0]);
    } else if (rest.len > 1 && !decimals_take(rest, &fraction)) {
        return false;
    }
    if (unit == 0 || number > (UINT64_MAX / MS - 1) / unit) {
        return false;
    }
    *ret_ms = number * unit * MS + fraction;
    return true;
}

bool tn_duration_parse(struct tn_bytes text, uint64_t *ret_seconds) {
    uint64_t ms;
    bool decimals = text.len > 0 && memchr(text.at, '.', text.len) != NULL;
    if (decimals || !tn_duration_parse_ms(text, &ms)) {
        return false;
    }
    *ret_seconds = ms / MS;
    return true;
}
