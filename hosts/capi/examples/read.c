/* A scan with pagecast, from C: open, announce, pin every page, report, look at the counts.
 *
 *     make capi
 *     cc -I hosts/capi/include hosts/capi/examples/read.c .../libpagecast_c.a -lpthread -ldl -lm -o read && ./read FILE
 */
#include <pagecast.h>
#include <stdio.h>
#include <stdlib.h>

static void must(enum pagecast_status status, const char *what) {
    if (status != PAGECAST_STATUS_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, (int)status, pagecast_message());
        exit(1);
    }
}

/* Adds up the bytes of all pages, page by page as a scan would. */
static uint64_t add_up(pagecast_pool *pool, pagecast_relation *table, pagecast_scan *scan) {
    uint64_t sum = 0, done = 0;
    for (uint32_t block = 0; block < pagecast_relation_pages(table); block++) {
        pagecast_page page;
        must(pagecast_pin(pool, table, block, scan, &page), "pin");
        for (size_t i = 0; i < page.length; i++)
            sum += page.data[i];
        done += page.length;
        must(pagecast_unpin(&page), "unpin");
        must(pagecast_scan_report(scan, done), "report");
    }
    return sum;
}

/* What goes wrong is a status and a message, never a crash. */
static void bad_use_is_refused(pagecast_pool *pool, pagecast_relation *table) {
    pagecast_page page;
    pagecast_relation *none = NULL;
    char byte;
    if (pagecast_pin(pool, table, pagecast_relation_pages(table), NULL, &page) != PAGECAST_STATUS_OUT_OF_BOUNDS ||
        pagecast_pin(NULL, table, 0, NULL, &page) != PAGECAST_STATUS_INVALID_ARGUMENT ||
        pagecast_relation_open(pool, "/no/such/file", &none) != PAGECAST_STATUS_IO ||
        pagecast_read(pool, table, UINT64_MAX, 1, NULL, (uint8_t *)&byte) != PAGECAST_STATUS_OUT_OF_BOUNDS) {
        fprintf(stderr, "bad use was not refused\n");
        exit(1);
    }
    must(pagecast_pin(pool, table, 0, NULL, &page), "pin");
    if (pagecast_pool_close(pool) != PAGECAST_STATUS_IN_USE) {
        fprintf(stderr, "the pool was closed under a pin\n");
        exit(1);
    }
    must(pagecast_unpin(&page), "unpin");
    if (pagecast_unpin(&page) != PAGECAST_STATUS_INVALID_ARGUMENT) {
        fprintf(stderr, "a page was unpinned twice\n");
        exit(1);
    }
    printf("refused: %s\n", pagecast_message());
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: read FILE\n");
        return 2;
    }
    pagecast_options options = pagecast_default_options();
    options.memory = 1 << 20;
    options.page_size = 4096;
    pagecast_pool *pool;
    must(pagecast_pool_open(&options, &pool), "open a pool");
    pagecast_relation *table;
    must(pagecast_relation_open(pool, argv[1], &table), argv[1]);

    /* The axis of this scan is the file itself: position = byte. */
    uint64_t length = pagecast_relation_length(table);
    pagecast_run run = {.first = 0, .pages = pagecast_relation_pages(table), .position = 0, .span = length};
    pagecast_part part = {.relation = table, .runs = &run, .run_count = 1};
    pagecast_scan *scan;
    must(pagecast_scan_register(pool, 0, length, &part, 1, &scan), "register");
    printf("sum %llu\n", (unsigned long long)add_up(pool, table, scan));
    must(pagecast_scan_finish(scan), "finish");

    uint8_t tail[16];
    size_t count = length < sizeof tail ? (size_t)length : sizeof tail;
    must(pagecast_read(pool, table, length - count, count, NULL, tail), "read");
    bad_use_is_refused(pool, table);

    pagecast_stats stats;
    must(pagecast_pool_stats(pool, &stats), "stats");
    printf("requests %llu hits %llu loads %llu pinned %u\n", (unsigned long long)stats.requests,
           (unsigned long long)stats.hits, (unsigned long long)stats.loads, stats.pinned);
    must(pagecast_relation_close(table), "close the file");
    must(pagecast_pool_close(pool), "close the pool");
    return 0;
}
