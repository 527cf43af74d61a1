"""Softmax regression on handwritten digits, in TensorFlow's first style: a graph, and a session that runs parts of it.

Without ``--data_dir`` it trains on the 8 x 8 digits in ``examples/data``; with it, on the four MNIST files. It prints
the same losses however it is run: op by op, compiled by the session's configuration (``--xla``), by ``MT_JIT_FLAGS``,
or in a scope of the graph (``--jit_scope``).
"""

import argparse
import contextlib
import sys
from pathlib import Path

import input_data

import minitensor.compat.v1 as tf
from minitensor import timeline

FLAGS = None


def main(_):
    """Train, write the last step's trace, and print how many held-back images are read rightly."""
    mnist = input_data.read_data_sets(FLAGS.data_dir, seed=0)

    # The model: a linear map of the pixels.
    x = tf.placeholder(tf.float32, [None, mnist.train.images.shape[1]], name="x")
    w = tf.Variable(tf.zeros([mnist.train.images.shape[1], 10]), name="w")
    b = tf.Variable(tf.zeros([10]), name="b")
    compiled = tf.contrib.compiler.jit.experimental_jit_scope if FLAGS.jit_scope else contextlib.nullcontext
    with compiled():
        y = tf.matmul(x, w) + b

        # The cost, and the step that makes it less.
        y_ = tf.placeholder(tf.int64, [None], name="labels")
        cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=y)
    train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)

    config = tf.ConfigProto()
    if FLAGS.xla:
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1

    run_metadata = tf.RunMetadata()
    sess = tf.Session(config=config)
    tf.global_variables_initializer().run(session=sess)
    for i in range(FLAGS.steps):
        batch_xs, batch_ys = mnist.train.next_batch(100)
        traced = FLAGS.timeline and i == FLAGS.steps - 1
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if traced else None
        _, loss = sess.run(
            [train_step, cross_entropy],
            feed_dict={x: batch_xs, y_: batch_ys},
            options=options,
            run_metadata=run_metadata if traced else None,
        )
        if FLAGS.print_losses:
            print(float(loss).hex())
    if FLAGS.timeline:
        trace = timeline.Timeline(step_stats=run_metadata.step_stats)
        FLAGS.timeline.write_text(trace.generate_chrome_trace_format())

    correct_prediction = tf.equal(tf.argmax(y, 1), y_)
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    print(sess.run(accuracy, feed_dict={x: mnist.test.images, y_: mnist.test.labels}))
    sess.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(__file__).parent / "data"
    parser.add_argument("--data_dir", type=Path, default=default, metavar="DIR", help="the four MNIST files")
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="training steps (%(default)s)")
    parser.add_argument("--xla", action="store_true", help="compile, by the session's config")
    parser.add_argument("--jit_scope", action="store_true", help="compile, by a scope of the graph")
    parser.add_argument("--timeline", type=Path, metavar="FILE", help="write a Chrome trace of the last step")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0], *unparsed])
