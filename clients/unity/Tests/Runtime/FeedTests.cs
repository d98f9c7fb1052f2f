using System;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace Scoregate.Tests
{
    public sealed class FeedTests : WithoutContext
    {
        private const string Stream =
            "event: begin\nid: 1-0\ndata: {}\n\n: nothing\n\nid: 2-0\n\n"
            + "event: standing\r\ndata: {\"player\":\r\ndata: \"p\u00fc\"}\r\n\r\nevent: rank\rid: 3-0\rdata: {\"rank\":1}\r\r";

        [Test]
        public void EventsAreTheSameHoweverTheirBytesArrive()
        {
            var bytes = Encoding.UTF8.GetBytes(Stream);
            for (var size = 1; size < 9; size++)
            {
                var told = new List<string>();
                var reader = new FeedReader(item => told.Add(item.Kind + "/" + item.Id + "/" + item.Data));
                for (var at = 0; at < bytes.Length; at += size)
                {
                    var piece = new byte[Math.Min(size, bytes.Length - at)];
                    Array.Copy(bytes, at, piece, 0, piece.Length);
                    reader.Take(piece, piece.Length);
                }

                CollectionAssert.AreEqual(
                    new[] { "begin/1-0/{}", "/2-0/{}", "standing//{\"player\":\"p\u00fc\"}", "rank/3-0/{\"rank\":1}" }, told);
            }
        }

        [Test]
        public void ALineWithoutAnEndIsNotKeptForEver()
        {
            var reader = new FeedReader(_ => { });
            var piece = new byte[1024 * 1024];
            reader.Take(piece, piece.Length);
            Assert.Throws<JsonException>(() => reader.Take(piece, 1));
        }

        [Test]
        public void AFeedGoesOnAfterTheLastIdThatWasHandled()
        {
            var transport = new ListedTransport().ThenFeed(Stream).ThenNothing().ThenFeed("event: reset\nid: 9-0\n\n")
                .ThenProblem(404, "not-found");
            var told = new List<string>();
            var watching = Given.Client(transport, new JumpingClock())
                .Watch("tiny", new FeedQuery { Windows = new[] { "daily" } }, item => told.Add(item.Kind), default(CancellationToken));
            Assert.AreEqual("not-found", Assert.Throws<ScoregateError>(() => watching.GetAwaiter().GetResult()).Reason);
            CollectionAssert.AreEqual(new[] { "begin", "standing", "rank", "reset" }, told);
            CollectionAssert.AreEqual(new[] { null, "3-0", "3-0", "9-0" }, transport.LastIds);
            Assert.AreEqual("GET /v0/v1/boards/tiny/live?window=daily", transport.Lines[0]);
        }

        [Test]
        public void APageInPlaceOfAFeedIsNoEvent()
        {
            var transport = new ListedTransport().Then(200, "event: begin\n\n", "text/html");
            var watching = Given.Client(transport, new JumpingClock()).Watch("tiny", null, _ => { }, default(CancellationToken));
            Assert.AreEqual(200, Assert.Throws<ScoregateError>(() => watching.GetAwaiter().GetResult()).Status);
        }

        [Test]
        public void WhatTheGameRaisesGoesToTheGame()
        {
            var transport = new ListedTransport().ThenFeed(Stream);
            var watching = Given.Client(transport, new JumpingClock())
                .Watch("tiny", null, _ => throw new DivideByZeroException(), default(CancellationToken));
            Assert.Throws<DivideByZeroException>(() => watching.GetAwaiter().GetResult());
            Assert.AreEqual(1, transport.Lines.Count);
        }

        [Test]
        public void AWaitEndsAtItsTimeAndTheFeedWithIt()
        {
            var clock = new JumpingClock();
            var ended = new TaskCompletionSource<WireAnswer>();
            var transport = new PendingFor(ended);
            var client = new ScoregateClient(
                "https://a.example", new ScoregateOptions { Transport = transport, Clock = clock, Token = "t", QueueFolder = "q" });
            var error = Assert.Throws<ScoregateError>(() => Given.Now(client.WaitUntilSettled("s1", 12)));
            Assert.AreEqual("timeout", error.Reason);
            CollectionAssert.AreEqual(new[] { 0.5, 1, 2, 4, 4.5 }, clock.Waits);
            Assert.IsTrue(ended.Task.IsCanceled);
        }

        private sealed class PendingFor : ITransport
        {
            private readonly TaskCompletionSource<WireAnswer> feed;

            internal PendingFor(TaskCompletionSource<WireAnswer> feed)
            {
                this.feed = feed;
            }

            public Task<WireAnswer> Send(WireRequest request, CancellationToken cancel)
            {
                if (request.OnBytes == null)
                {
                    return new ListedTransport().Then(200, Given.Submission("pending")).Send(request, cancel);
                }

                cancel.Register(() => feed.TrySetCanceled());
                return feed.Task;
            }
        }
    }
}
