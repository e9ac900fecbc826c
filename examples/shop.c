/* SPDX-License-Identifier: MIT */
/* A shop that works, is slow now and then, and crashes when it is told to:
 *
 *   shop [ORDERS [crash]]
 *
 * A flight recorder (`events = [ "shop:*" ]`) has what led to the crash. */
#include "shop-events.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Costly arguments are worth a question first. */
static void log_basket(uint64_t order)
{
	uint32_t articles[8];
	size_t n = 0;

	if (!trace_enabled_shop_basket())
		return;
	for (uint64_t rest = order * 2654435761u; n < 8 && rest; rest >>= 7)
		articles[n++] = (uint32_t)(rest & 0x7f);
	trace_shop_basket(order, articles, n);
}

static void place(uint64_t order)
{
	static const char *const customers[] = { "ada", "grace", "barbara", NULL };
	char body[64];

	memset(body, (int)('a' + order % 26), sizeof(body));
	trace_shop_request(body, order % sizeof(body));
	trace_shop_order_placed(order, (uint32_t)(order % 5 + 1), customers[order % 4]);
	log_basket(order);
}

static void pack(uint64_t order)
{
	struct timespec t = { 0, order % 50 ? 1000000 : 30000000 };

	nanosleep(&t, NULL);
	trace_shop_order_packed(order, (double)(order % 30) / 4, order % 7 == 0);
	if (t.tv_nsec > 10000000) {
		trace_shop_slow(order, (uint32_t)(t.tv_nsec / 1000000));
		/* every session that records us is saved, if it is not too soon after the last time */
		(void)tracer_snapshot("an order took too long to pack");
	}
}

int main(int argc, char **argv)
{
	uint64_t orders = argc > 1 ? strtoull(argv[1], NULL, 0) : UINT64_MAX;

	tracer_printf(TRACER_NOTICE, "shop %d opens", (int)getpid());
	for (uint64_t order = 1; order <= orders; order++) {
		place(order);
		pack(order);
	}
	if (argc > 2 && !strcmp(argv[2], "crash"))
		*(volatile int *)NULL = 1;
	return 0;
}
