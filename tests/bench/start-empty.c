/* SPDX-License-Identifier: MIT */
/* A program that loads the empty library and ends. */
int empty_call(void);
int main(void)
{
	return empty_call();
}
