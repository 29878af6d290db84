/* Redis's side of the workloads. An allocation replies VALUE:TOKEN: (a bundle: its token) or nothing; a
 * client that comes with a token that is not the current one gets 0. */
#include "script_redis.h"

#include "../bench.h"
#include "words.h"

enum { ALLOC, RELEASE, LEAN_ALLOC, LEAN_RELEASE, RENEW, UNLOCK, BUNDLE, UNBUNDLE, RETURN, LEAVE };

static struct {
    const char *lua;
    char sha[41];
} scripts[] = {
    /* The holder, the end in milliseconds. */
    [ALLOC] = {"local value = redis.call('LPOP', 'free') "
               "if not value then return false end "
               "local token = redis.call('INCR', 'token') "
               "redis.call('HSET', 'owner', value, token .. ':' .. ARGV[1]) "
               "redis.call('ZADD', 'due', ARGV[2], value) "
               "return value .. ':' .. token .. ':'",
               ""},
    /* The value, TOKEN:HOLDER. */
    [RELEASE] = {"if redis.call('HGET', 'owner', ARGV[1]) ~= ARGV[2] then return 0 end "
                 "redis.call('HDEL', 'owner', ARGV[1]) "
                 "redis.call('ZREM', 'due', ARGV[1]) "
                 "redis.call('RPUSH', 'free', ARGV[1]) "
                 "return 1",
                 ""},
    /* The holder, the end. */
    [LEAN_ALLOC] = {"local value = redis.call('LPOP', 'free') "
                    "if not value then return false end "
                    "local lease = value .. ':' .. redis.call('INCR', 'token') .. ':' "
                    "redis.call('ZADD', 'leases', ARGV[2], lease .. ARGV[1]) "
                    "return lease",
                    ""},
    /* The value, VALUE:TOKEN:HOLDER. */
    [LEAN_RELEASE] = {"if redis.call('ZREM', 'leases', ARGV[2]) == 0 then return 0 end "
                      "redis.call('RPUSH', 'free', ARGV[1]) "
                      "return 1",
                      ""},
    /* The value, TOKEN:HOLDER, the end. The token is checked in one place and the end changed in another;
     * in the lean layout ZADD XX does both, without a script. */
    [RENEW] = {"if redis.call('HGET', 'owner', ARGV[1]) ~= ARGV[2] then return 0 end "
               "redis.call('ZADD', 'due', ARGV[3], ARGV[1]) "
               "return 1",
               ""},
    /* The holder. */
    [UNLOCK] = {"if redis.call('GET', 'lock') ~= ARGV[1] then return 0 end "
                "return redis.call('DEL', 'lock')",
                ""},
    /* The holder, the end. All values or none. */
    [BUNDLE] = {"local counts = {3, 3, 2} local lease = {ARGV[1]} "
                "for i = 1, 3 do "
                "  local values = redis.call('LPOP', 'free:' .. i, counts[i]) "
                "  if not values or #values < counts[i] then "
                "    if values then redis.call('RPUSH', 'free:' .. i, unpack(values)) end "
                "    for k = 2, i do "
                "      redis.call('RPUSH', 'free:' .. (k - 1), unpack(lease[k])) "
                "    end "
                "    return false "
                "  end "
                "  lease[i + 1] = values "
                "end "
                "local token = redis.call('INCR', 'token') "
                "redis.call('HSET', 'leases', token, cmsgpack.pack(lease)) "
                "redis.call('ZADD', 'due', ARGV[2], token) "
                "return token",
                ""},
    /* The token, the holder. */
    [UNBUNDLE] = {"local packed = redis.call('HGET', 'leases', ARGV[1]) "
                  "if not packed then return 0 end "
                  "local lease = cmsgpack.unpack(packed) "
                  "if lease[1] ~= ARGV[2] then return 0 end "
                  "for i = 1, 3 do redis.call('RPUSH', 'free:' .. i, unpack(lease[i + 1])) end "
                  "redis.call('HDEL', 'leases', ARGV[1]) "
                  "redis.call('ZREM', 'due', ARGV[1]) "
                  "return 1",
                  ""},
    /* The holder, the end. `home` (holder to value) outlives the lease. */
    [RETURN] = {"local value = redis.call('HGET', 'home', ARGV[1]) "
                "if not value then "
                "  value = redis.call('LPOP', 'free') "
                "  if not value then return false end "
                "  redis.call('HSET', 'home', ARGV[1], value) "
                "end "
                "local token = redis.call('INCR', 'token') "
                "redis.call('HSET', 'owner', value, token .. ':' .. ARGV[1]) "
                "redis.call('ZADD', 'due', ARGV[2], value) "
                "return value .. ':' .. token .. ':'",
                ""},
    /* The value, TOKEN:HOLDER, the end of the time for which the value stays the holder's. */
    [LEAVE] = {"if redis.call('HGET', 'owner', ARGV[1]) ~= ARGV[2] then return 0 end "
               "redis.call('HDEL', 'owner', ARGV[1]) "
               "redis.call('ZADD', 'due', ARGV[3], ARGV[1]) "
               "return 1",
               ""},
};

static uint64_t end_ms = 1893456000000u; /* always later: an end that stays is not logged */

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- Requests ---- */

static void put_script(struct words *w, unsigned arguments, unsigned script) {
    words_count(w, 3 + arguments);
    WORDS(w, "$7\r\nEVALSHA\r\n$40\r\n");
    words_raw(w, scripts[script].sha, 40);
    WORDS(w, "\r\n$1\r\n0\r\n");
}

/* The first step: a script of the holder and the end, or SET NX. */
static void put_grant(struct words *w, const struct redis_job *job, const struct load_lane *lane) {
    if (job->work == WORK_CONTEND) {
        WORDS(w, "*6\r\n$3\r\nSET\r\n$4\r\nlock\r\n");
        words_holder(w, lane->index, "", 0);
        WORDS(w, "$2\r\nNX\r\n$2\r\nPX\r\n$7\r\n3600000\r\n");
        return;
    }
    put_script(w, 2,
               job->work == WORK_BUNDLE   ? BUNDLE
               : job->work == WORK_STICKY ? RETURN
               : job->lean                ? LEAN_ALLOC
                                          : ALLOC);
    words_holder(w, lane->index, "", 0);
    words_number(w, end_ms++);
}

/* TOKEN:HOLDER, or in the lean layout VALUE:TOKEN:HOLDER. The lane has VALUE:TOKEN: and the length of the
 * value. */
static void put_lease(struct words *w, const struct load_lane *lane, bool lean) {
    size_t skip = lean ? 0 : (size_t)lane->number + 1;
    words_holder(w, lane->index, lane->text + skip, lane->text_len - skip);
}

static void put_renewal(struct words *w, const struct load_lane *lane, bool lean) {
    if (lean) {
        WORDS(w, "*6\r\n$4\r\nZADD\r\n$6\r\nleases\r\n$2\r\nXX\r\n$2\r\nCH\r\n");
        words_number(w, end_ms++);
        put_lease(w, lane, lean);
        return;
    }
    put_script(w, 3, RENEW);
    words_word(w, lane->text, (size_t)lane->number);
    put_lease(w, lane, lean);
    words_number(w, end_ms++);
}

static void put_release(struct words *w, const struct redis_job *job,
                        const struct load_lane *lane) {
    if (job->work == WORK_CONTEND) {
        put_script(w, 1, UNLOCK);
        words_holder(w, lane->index, "", 0);
        return;
    }
    if (job->work == WORK_BUNDLE) {
        put_script(w, 2, UNBUNDLE);
        words_word(w, lane->text, lane->text_len);
        words_holder(w, lane->index, "", 0);
        return;
    }
    bool sticky = job->work == WORK_STICKY;
    put_script(w, sticky ? 3 : 2, sticky ? LEAVE : job->lean ? LEAN_RELEASE : RELEASE);
    words_word(w, lane->text, (size_t)lane->number);
    put_lease(w, lane, job->lean);
    if (sticky) {
        words_number(w, end_ms++);
    }
}

static size_t next_request(const void *ctx, struct load_lane *lane, char *out) {
    const struct redis_job *job = ctx;
    struct words w = words_of(out);
    if (lane->step == 0) {
        put_grant(&w, job, lane);
    } else if (job->work == WORK_RENEW) {
        put_renewal(&w, lane, job->lean);
    } else {
        put_release(&w, job, lane);
    }
    return w.len;
}

/* ---- Replies ---- */

static bool remember(struct load_lane *lane, const struct load_reply *reply) {
    if (reply->of[0].len > sizeof lane->text) {
        return false;
    }
    memcpy(lane->text, reply->of[0].at, reply->of[0].len);
    lane->text_len = reply->of[0].len;
    return true;
}

/* VALUE:TOKEN: of a value. A returning holder gets the value that it had. */
static bool granted(const struct redis_job *job, struct load_lane *lane,
                    const struct load_reply *reply) {
    size_t before = (size_t)lane->number + 1;
    if (reply->type != '$' || reply->of[0].len < 3 ||
        (job->work == WORK_STICKY && lane->text_len > 0 &&
         memcmp(lane->text, reply->of[0].at, before) != 0) ||
        !remember(lane, reply)) {
        return false;
    }
    const char *colon = memchr(lane->text, ':', lane->text_len);
    lane->number = colon != NULL ? (uint64_t)(colon - lane->text) : 0;
    lane->step = 1;
    return colon != NULL;
}

static bool take_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    const struct redis_job *job = ctx;
    if (lane->step == 1) {
        lane->step = job->work == WORK_RENEW ? 1 : 0;
        return reply->type == ':' && reply->of[0].at[0] == '1';
    }
    if (job->work == WORK_CONTEND) {
        lane->step = reply->type == '+';
        *job->grants += lane->step;
        return reply->type == '+' || reply->type == '$'; /* $-1: another client has it */
    }
    if (job->work == WORK_BUNDLE) {
        lane->step = 1;
        return reply->type == ':' && remember(lane, reply);
    }
    return granted(job, lane, reply);
}

struct load_script redis_script(const struct redis_job *job) {
    static char select[16][40];
    snprintf(select[job->pool], sizeof select[0], "*2\r\n$6\r\nSELECT\r\n$%d\r\n%u\r\n",
             job->pool < 10 ? 1 : 2, job->pool);
    return (struct load_script){
        .request = next_request, .reply = take_reply, .ctx = job, .hello = select[job->pool]};
}

/* ---- Preparing ---- */

void redis_prepare(uint16_t port) {
    char request[2048];
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct words w = words_of(request);
        WORDS(&w, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n");
        words_text(&w, scripts[i].lua);
        request[w.len] = '\0';
        load_ask(port, request, scripts[i].sha, sizeof scripts[i].sha);
        if (strlen(scripts[i].sha) != 40) {
            die("redis-server", scripts[i].sha);
        }
    }
}

/* Runs Lua in the pool's database. */
static void run(uint16_t port, unsigned pool, const char *lua) {
    char text[640], request[768], answer[128];
    snprintf(text, sizeof text, "redis.call('SELECT', %u) %s return 1", pool, lua);
    struct words w = words_of(request);
    WORDS(&w, "*3\r\n$4\r\nEVAL\r\n");
    words_text(&w, text);
    WORDS(&w, "$1\r\n0\r\n");
    request[w.len] = '\0';
    load_ask(port, request, answer, sizeof answer);
    if (strcmp(answer, "1") != 0) {
        die("redis-server", answer);
    }
}

/* In pieces, so that no script takes long; 500 values a command. */
#define PIECE 65536u

static void pieces_run(uint16_t port, unsigned pool, uint32_t from, uint32_t end,
                       const char *body) {
    char lua[512];
    for (uint32_t at = from; at < end; at += PIECE) {
        uint32_t last = (end - at < PIECE ? end : at + PIECE) - 1;
        snprintf(lua, sizeof lua,
                 "for from = %u, %u, 500 do local a, b = {}, {} "
                 "for i = from, math.min(from + 499, %u) do %s end",
                 at, last, last, body);
        run(port, pool, lua);
    }
}

void redis_pool_make(uint16_t port, unsigned pool, uint32_t values, uint32_t held) {
    pieces_run(port, pool, 0, held,
               "a[#a + 1] = i a[#a + 1] = i .. ':other/' .. i % 1000 "
               "b[#b + 1] = 1893456000000 b[#b + 1] = i end "
               "redis.call('HSET', 'owner', unpack(a)) redis.call('ZADD', 'due', unpack(b))");
    pieces_run(port, pool, held, values,
               "a[#a + 1] = i end redis.call('RPUSH', 'free', unpack(a))");
}

void redis_bundle_make(uint16_t port, unsigned pool, uint32_t values) {
    char lua[160];
    snprintf(lua, sizeof lua,
             "for p = 1, 3 do for i = 0, %u do redis.call('RPUSH', 'free:' .. p, i) end end",
             values - 1);
    run(port, pool, lua);
}
