/* The smallest job: every worker succeeds at once. The benchmark starts it to measure the launcher and
 * nothing else. */
int main(void) { return 0; }
