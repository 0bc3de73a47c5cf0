/* The calls that the example leaves out: sessions, shares of the pool, prefetch, resize, snapshot.
 * Its file has 63 pages of 4096 bytes and one of 100, and each byte is the number of its page. */
#include <pagecast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 64
#define PAGE_SIZE 4096
#define LENGTH (63 * PAGE_SIZE + 100)

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s does not hold; last message: %s\n", line, what, pagecast_message());
        exit(1);
    }
}
#define CHECK(condition) check(condition, #condition, __LINE__)
#define OK(call) CHECK((call) == PAGECAST_STATUS_OK)
#define REFUSED(call, why) CHECK((call) == PAGECAST_STATUS_##why)

/* The number behind a metric's name in a snapshot of the pool; -1 if there is none. */
static long metric(pagecast_pool *pool, const char *name) {
    char *text;
    OK(pagecast_pool_snapshot(pool, &text));
    char line[4096];
    snprintf(line, sizeof line, "\npagecast_%s ", name);
    const char *at = strstr(text, line);
    long value = at ? atol(at + strlen(line)) : -1;
    OK(pagecast_text_free(text));
    return value;
}

/* The same of one file. */
static long of_file(pagecast_pool *pool, const char *name, const char *path) {
    char whole[4000];
    snprintf(whole, sizeof whole, "relation_%s{path=\"%s\"}", name, path);
    return metric(pool, whole);
}

static void read_all(pagecast_pool *pool, pagecast_relation *table, pagecast_scan *scan) {
    for (uint32_t block = 0; block < PAGES; block++) {
        pagecast_page page;
        OK(pagecast_pin(pool, table, block, scan, &page));
        CHECK(page.data[0] == block);
        OK(pagecast_unpin(&page));
    }
}

static pagecast_scan *scan_of(pagecast_pool *pool, pagecast_relation *table) {
    pagecast_run run = {.first = 0, .pages = PAGES, .position = 0, .span = LENGTH};
    pagecast_part part = {.relation = table, .runs = &run, .run_count = 1};
    pagecast_scan *scan;
    OK(pagecast_scan_register(pool, 0, LENGTH, &part, 1, &scan));
    return scan;
}

static void sessions(pagecast_pool *pool, pagecast_relation *table) {
    pagecast_session *one, *other;
    OK(pagecast_session_open(pool, &one));
    OK(pagecast_session_open(pool, &other));
    pagecast_page page;
    OK(pagecast_session_pin(one, table, 3, NULL, &page));
    CHECK(page.length == PAGE_SIZE && page.data[0] == 3 && page.data[PAGE_SIZE - 1] == 3);

    /* A page that is resident and one that is not, to memory that holds nothing yet. */
    uint8_t *bytes = malloc(PAGE_SIZE);
    CHECK(bytes != NULL);
    uint8_t seven[7], wanted[7];
    OK(pagecast_session_copy(other, table, 3, PAGE_SIZE - 7, 7, NULL, seven));
    CHECK(memcmp(seven, memset(wanted, 3, 7), 7) == 0);
    OK(pagecast_session_copy(other, table, 40, 0, PAGE_SIZE, NULL, bytes));
    CHECK(bytes[0] == 40 && bytes[PAGE_SIZE - 1] == 40);
    OK(pagecast_session_copy(other, table, 63, 93, 7, NULL, seven));
    CHECK(memcmp(seven, memset(wanted, 63, 7), 7) == 0);
    OK(pagecast_session_copy(other, table, 3, 0, 0, NULL, NULL));
    free(bytes);

    REFUSED(pagecast_session_copy(one, table, 3, PAGE_SIZE - 7, 8, NULL, seven), OUT_OF_BOUNDS);
    REFUSED(pagecast_session_copy(one, table, 3, UINT32_MAX, SIZE_MAX, NULL, seven), OUT_OF_BOUNDS);
    REFUSED(pagecast_session_copy(one, table, 63, 94, 7, NULL, seven), OUT_OF_BOUNDS);
    REFUSED(pagecast_session_copy(one, table, 64, 0, 7, NULL, seven), OUT_OF_BOUNDS);
    REFUSED(pagecast_session_copy(one, table, 3, 0, 7, NULL, NULL), INVALID_ARGUMENT);
    REFUSED(pagecast_session_pin(NULL, table, 3, NULL, &page), INVALID_ARGUMENT);
    REFUSED(pagecast_session_pin(one, table, 64, NULL, &page), OUT_OF_BOUNDS);
    REFUSED(pagecast_session_open(NULL, &one), INVALID_ARGUMENT);

    /* The page stays pinned after its session, and the pool open until its last session ends. */
    OK(pagecast_session_close(one));
    CHECK(metric(pool, "frames_pinned") == 1 && page.data[0] == 3);
    OK(pagecast_unpin(&page));
    REFUSED(pagecast_unpin(&page), INVALID_ARGUMENT);
    REFUSED(pagecast_pool_close(pool), IN_USE);
    CHECK(strstr(pagecast_message(), "1 sessions open") != NULL);
    OK(pagecast_session_close(other));
    REFUSED(pagecast_session_close(NULL), INVALID_ARGUMENT);
}

/* Once through so much of a file that the pool has room for nothing else. */
static void read_more_than_fits(pagecast_pool *pool, pagecast_relation *large) {
    uint32_t pages = 2 * (uint32_t)metric(pool, "frames");
    CHECK(pagecast_relation_pages(large) > pages);
    for (uint32_t block = 0; block < pages; block++) {
        pagecast_page page;
        OK(pagecast_pin(pool, large, block, NULL, &page));
        OK(pagecast_unpin(&page));
    }
}

static void shares(pagecast_pool *pool, pagecast_relation *table, char **argv) {
    pagecast_scan *scan = scan_of(pool, table);
    OK(pagecast_scan_cap(scan, 4));
    read_all(pool, table, scan);
    CHECK(metric(pool, "frames_resident") == 4);
    OK(pagecast_scan_finish(scan));
    OK(pagecast_relation_cap(pool, table, 10));
    read_all(pool, table, NULL);
    CHECK(metric(pool, "frames_resident") <= 14);
    OK(pagecast_relation_cap(pool, table, 0));
    read_all(pool, table, NULL);
    CHECK(metric(pool, "frames_resident") == PAGES);

    /* This program itself displaces, being larger than the pool, all but the pages that are
     * kept. */
    pagecast_relation *large;
    OK(pagecast_relation_open(pool, argv[0], &large));
    OK(pagecast_relation_reserve(pool, table, 8));
    read_more_than_fits(pool, large);
    CHECK(of_file(pool, "pages_resident", argv[1]) == 8);
    OK(pagecast_relation_reserve(pool, table, 0));
    read_more_than_fits(pool, large);
    CHECK(of_file(pool, "pages_resident", argv[1]) == 0);
    OK(pagecast_relation_close(large));

    /* A relation is its own pool's. */
    pagecast_options small = pagecast_default_options();
    small.memory = 1 << 20;
    pagecast_pool *other;
    pagecast_relation *its;
    OK(pagecast_pool_open(&small, &other));
    OK(pagecast_relation_open(other, argv[1], &its));
    REFUSED(pagecast_relation_cap(pool, its, 1), INVALID_ARGUMENT);
    REFUSED(pagecast_relation_reserve(pool, its, 1), INVALID_ARGUMENT);
    pagecast_session *session;
    pagecast_page page;
    uint8_t byte;
    OK(pagecast_session_open(pool, &session));
    REFUSED(pagecast_session_pin(session, its, 0, NULL, &page), INVALID_ARGUMENT);
    REFUSED(pagecast_session_copy(session, its, 0, 0, 1, NULL, &byte), INVALID_ARGUMENT);
    REFUSED(pagecast_read(pool, its, 0, 1, NULL, &byte), INVALID_ARGUMENT);
    OK(pagecast_session_close(session));
    OK(pagecast_relation_close(its));
    OK(pagecast_pool_close(other));
    REFUSED(pagecast_scan_cap(NULL, 1), INVALID_ARGUMENT);
}

static void prefetch(pagecast_pool *pool, pagecast_relation *table) {
    pagecast_scan *scan = scan_of(pool, table);
    uint32_t pages;
    OK(pagecast_scan_prefetch(scan, table, 10 * PAGE_SIZE, 2 * PAGE_SIZE, &pages));
    CHECK(pages == 2);
    uint8_t bytes[2 * PAGE_SIZE];
    OK(pagecast_read(pool, table, 10 * PAGE_SIZE, sizeof bytes, scan, bytes));
    CHECK(bytes[0] == 10 && bytes[sizeof bytes - 1] == 11);
    OK(pagecast_read(pool, table, LENGTH, 0, NULL, NULL));
    REFUSED(pagecast_read(pool, table, LENGTH - 1, 2, NULL, bytes), OUT_OF_BOUNDS);
    REFUSED(pagecast_read(pool, table, 0, SIZE_MAX, NULL, bytes), OUT_OF_BOUNDS);
    pagecast_stats stats;
    OK(pagecast_pool_stats(pool, &stats));
    CHECK(stats.prefetched == 2 && stats.prefetch_useful + stats.prefetch_late == 2 && stats.prefetch_wasted == 0);
    REFUSED(pagecast_scan_prefetch(scan, table, LENGTH, 1, &pages), OUT_OF_BOUNDS);
    REFUSED(pagecast_scan_prefetch(scan, table, UINT64_MAX, 1, &pages), OUT_OF_BOUNDS);
    REFUSED(pagecast_scan_prefetch(scan, table, 0, 1, NULL), INVALID_ARGUMENT);
    OK(pagecast_scan_finish(scan));
}

/* Chunks of 4 pages, of which the first takes its second page only. */
static void any_order(pagecast_pool *pool, pagecast_relation *table) {
    enum { UNIT = 4, CHUNKS = PAGES / UNIT };
    const uint64_t second = 2;
    pagecast_chunk chunks[CHUNKS];
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunks[i] = (pagecast_chunk){.relation = table, .first = i * UNIT, .pages = UNIT, .need = i ? NULL : &second};
    }
    pagecast_scan *scan;
    OK(pagecast_scan_register_unordered(pool, 1, 1, chunks, CHUNKS, &scan));
    CHECK(metric(pool, "unordered_scans") == 1);
    pagecast_lease *lease;
    uint32_t chunk;
    uint8_t seen[CHUNKS] = {0};
    OK(pagecast_scan_take(scan, 1, &lease));
    OK(pagecast_lease_return(lease));
    for (uint32_t i = 0; i < CHUNKS; i++) {
        OK(pagecast_scan_take(scan, 1, &lease));
        CHECK(lease != NULL);
        OK(pagecast_lease_chunk(lease, &chunk));
        CHECK(chunk < CHUNKS && !seen[chunk]);
        seen[chunk] = 1;
        for (uint32_t page = chunk ? 0 : 1; page < (chunk ? UNIT : 2); page++) {
            uint8_t bytes[100];
            OK(pagecast_read(pool, table, (chunk * UNIT + page) * PAGE_SIZE, sizeof bytes, scan, bytes));
            CHECK(bytes[0] == chunk * UNIT + page);
        }
        OK(pagecast_lease_asked(lease));
        if (i == CHUNKS - 1) {
            pagecast_lease *none;
            REFUSED(pagecast_scan_take(scan, 0, &none), NOT_YET);
        }
        OK(pagecast_lease_consumed(lease));
    }
    OK(pagecast_scan_take(scan, 1, &lease));
    CHECK(!lease);
    CHECK(metric(pool, "chunks_total") == CHUNKS + 1 && metric(pool, "chunks_returned_total") == 1);
    REFUSED(pagecast_scan_report(scan, 1), INVALID_ARGUMENT);
    REFUSED(pagecast_scan_take(NULL, 1, &lease), INVALID_ARGUMENT);
    REFUSED(pagecast_lease_consumed(NULL), INVALID_ARGUMENT);
    OK(pagecast_scan_finish(scan));

    /* A chunk that is not needed any more is not handed out; the lease ends after its scan. */
    OK(pagecast_scan_register_unordered(pool, 1, 1, chunks, 2, &scan));
    OK(pagecast_scan_remove(scan, 1));
    OK(pagecast_scan_take(scan, 1, &lease));
    OK(pagecast_lease_chunk(lease, &chunk));
    CHECK(chunk == 0);
    OK(pagecast_scan_finish(scan));
    CHECK(metric(pool, "unordered_scans") == 1);
    OK(pagecast_lease_return(lease));
    CHECK(metric(pool, "unordered_scans") == 0 && metric(pool, "scans") == 0);

    chunks[0].first = PAGES;
    REFUSED(pagecast_scan_register_unordered(pool, 1, 1, chunks, 1, &scan), OUT_OF_BOUNDS);
    chunks[0] = (pagecast_chunk){.relation = NULL};
    REFUSED(pagecast_scan_register_unordered(pool, 1, 1, chunks, 1, &scan), INVALID_ARGUMENT);
    scan = scan_of(pool, table);
    REFUSED(pagecast_scan_take(scan, 1, &lease), INVALID_ARGUMENT);
    OK(pagecast_scan_finish(scan));
}

static uint32_t rows_of(void *context, size_t length) {
    ++*(uint32_t *)context;
    return (uint32_t)(length / 128);
}

/* Items have the names 1000, 1001, ... */
static int name_row(void *context, const uint8_t *page, size_t length, uint32_t place, uint32_t *item) {
    (void)context, (void)page, (void)length;
    *item = 1000 + place;
    return 1;
}

static int locate_row(void *context, const uint8_t *page, size_t length, uint32_t item, uint32_t *start, uint32_t *end) {
    (void)context, (void)page;
    *start = (item - 1000) * 128;
    *end = *start + 128;
    return item >= 1000 && *end <= length;
}

static void items(pagecast_pool *pool, pagecast_relation *table) {
    uint32_t called = 0;
    pagecast_layout layout = {.kind = PAGECAST_LAYOUT_KIND_FUNCTIONS};
    pagecast_tuples *tuples;
    REFUSED(pagecast_tuples_open(pool, table, &layout, &tuples), INVALID_ARGUMENT);
    REFUSED(pagecast_tuples_open(pool, table, NULL, &tuples), INVALID_ARGUMENT);
    layout.items = rows_of, layout.name = name_row, layout.locate = locate_row, layout.context = &called;
    OK(pagecast_tuples_open(pool, table, &layout, &tuples));
    layout.kind = PAGECAST_LAYOUT_KIND_FIXED_ROWS;
    layout.row = 128;
    pagecast_tuples *second;
    REFUSED(pagecast_tuples_open(pool, table, &layout, &second), INVALID_ARGUMENT);
    pagecast_session *session;
    OK(pagecast_session_open(pool, &session));
    uint8_t row[128];
    size_t length;
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t block = 0; block < PAGES - 1; block++) {
            OK(pagecast_tuples_read(session, tuples, block, 1003, row, sizeof row, &length));
            CHECK(length == 128 && row[0] == block && row[127] == block);
        }
    }
    OK(pagecast_tuples_read(session, tuples, 0, 3, row, sizeof row, &length));
    CHECK(length == 0);
    OK(pagecast_tuples_read(session, tuples, 0, 1003, row, 1, &length));
    CHECK(length == 128);
    REFUSED(pagecast_tuples_read(session, tuples, PAGES, 1003, row, sizeof row, &length), OUT_OF_BOUNDS);
    REFUSED(pagecast_tuples_read(session, NULL, 0, 1003, row, sizeof row, &length), INVALID_ARGUMENT);
    REFUSED(pagecast_tuples_update(tuples, 0, 1003, row, sizeof row, NULL, NULL), INVALID_ARGUMENT);
    OK(pagecast_session_close(session));
    OK(pagecast_tuples_close(tuples));
    REFUSED(pagecast_tuples_close(NULL), INVALID_ARGUMENT);
}

static void resize(pagecast_pool *pool, pagecast_relation *table, uint64_t memory) {
    pagecast_resized smaller, larger;
    OK(pagecast_pool_resize(pool, memory / 2, &smaller));
    CHECK(metric(pool, "frames") == smaller.frames && smaller.held == 0);
    read_all(pool, table, NULL);
    OK(pagecast_pool_resize(pool, 2 * memory, &larger));
    CHECK(larger.frames > 2 * smaller.frames && metric(pool, "frames") == larger.frames);
    REFUSED(pagecast_pool_resize(pool, 2 * memory + 1, &larger), INVALID_ARGUMENT);
    REFUSED(pagecast_pool_resize(pool, 1, &larger), SETUP);
    CHECK(metric(pool, "frames") == larger.frames);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: calls FILE\n");
        return 2;
    }
    const uint64_t memory = 1 << 20;
    pagecast_options options = pagecast_default_options();
    options.memory = memory;
    options.max_memory = 2 * memory;
    options.page_size = PAGE_SIZE;
    options.count_relations = 1;
    options.prefetch_share = 0.75;
    pagecast_pool *pool;
    REFUSED(pagecast_pool_open(&options, &pool), INVALID_ARGUMENT);
    options.prefetch_share = 0.25;
    OK(pagecast_pool_open(&options, &pool));
    pagecast_relation *table;
    OK(pagecast_relation_open(pool, argv[1], &table));

    prefetch(pool, table);
    resize(pool, table, memory);
    CHECK(of_file(pool, "requests_total", argv[1]) == metric(pool, "requests_total"));
    REFUSED(pagecast_text_free(NULL), INVALID_ARGUMENT);
    REFUSED(pagecast_pool_snapshot(pool, NULL), INVALID_ARGUMENT);
    OK(pagecast_relation_close(table));
    OK(pagecast_pool_close(pool));

    /* Shares are of what is resident, so theirs is a pool of its own; and no page is copied
     * unpinned while they are counted. */
    options.count_relations = 0;
    options.policy = "lru";
    OK(pagecast_pool_open(&options, &pool));
    OK(pagecast_relation_open(pool, argv[1], &table));
    shares(pool, table, argv);
    sessions(pool, table);
    any_order(pool, table);
    OK(pagecast_relation_close(table));
    OK(pagecast_pool_close(pool));

    options.tuples = 1;
    OK(pagecast_pool_open(&options, &pool));
    OK(pagecast_relation_open(pool, argv[1], &table));
    items(pool, table);
    OK(pagecast_relation_close(table));
    OK(pagecast_pool_close(pool));
    puts("done");
    return 0;
}
