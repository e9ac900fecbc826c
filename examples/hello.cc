/* SPDX-License-Identifier: MIT */
/* The same in C++17: events may stand in a namespace, and take what converts to their types. */
#include <tracer/tracer.h>

#include <string>
#include <vector>

namespace demo
{
TRACER_EVENT(demo, words, TRACER_INFO, TRACER_STR(text), TRACER_F64_SEQ(weights))
}

int main()
{
	std::string text = "hello";
	std::vector<double> weights = { 0.5, 0.25 };

	for (int i = 0; i < 1000; i++) {
		weights.push_back(i);
		demo::trace_demo_words(text.c_str(), weights.data(), weights.size());
	}
	return 0;
}
