/* SPDX-License-Identifier: MIT */
/* The smallest instrumented program: one event, recorded once a second.
 *
 *   cc hello.c $(pkg-config --cflags --libs libtracer) -o hello */
#include <tracer/tracer.h>

#include <stdio.h>
#include <unistd.h>

TRACER_EVENT(hello, greeting, TRACER_INFO, TRACER_U32(number), TRACER_STR(whom))

int main(int argc, char **argv)
{
	const char *whom = argc > 1 ? argv[1] : "world";

	for (unsigned int i = 0;; i++) {
		printf("hello, %s\n", whom);
		trace_hello_greeting(i, whom);
		sleep(1);
	}
}
