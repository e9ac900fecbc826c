/* SPDX-License-Identifier: MIT */
/* A program that knows nothing of us, has used up its static TLS, and then loads an instrumented
 * library: host PLUGIN N TLS-LIBRARY... (HOST_KEYS: its thread-specific keys as well) */
#include <dlfcn.h>
#include <err.h>
#include <pthread.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void (*call)(unsigned int);
	pthread_key_t key;
	int poor = 0;
	void *h;

	if (argc < 4)
		errx(2, "usage");
	for (int i = 3; i < argc && !poor; i++)
		poor = !dlopen(argv[i], RTLD_NOW);
	if (!poor)
		errx(77, "static TLS never ran out");
	/* and the keys that lie inside the threads' descriptors, if it is asked to */
	for (int i = 0; getenv("HOST_KEYS") && i < 40; i++)
		if (pthread_key_create(&key, NULL))
			errx(2, "keys");
	h = dlopen(argv[1], RTLD_NOW);
	if (!h)
		errx(1, "%s", dlerror());
	*(void **)&call = dlsym(h, "plugin_call");
	for (int i = 0; i < atoi(argv[2]); i++)
		call((unsigned int)i);
	return 0;
}
