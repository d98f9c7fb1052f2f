using System;
using System.Text;
using NUnit.Framework;

namespace Scoregate.Tests
{
    public sealed class CoreTests
    {
        [Test]
        public void ARecorderMakesTheRecordingOfTheReference()
        {
            var recorder = new Recorder(4);
            foreach (var word in new uint[] { 0, 0, 0, 2 })
            {
                recorder.Tick(word);
            }

            Assert.IsTrue(recorder.IsCheckpointDue);
            Assert.Throws<InvalidOperationException>(() => recorder.Tick(2));
            Assert.Throws<InvalidOperationException>(() => recorder.Finish());
            recorder.Checkpoint(0x0123456789abcdef);
            Assert.Throws<InvalidOperationException>(() => recorder.Checkpoint(1));
            recorder.Tick(2);
            Assert.AreEqual("U0dSMQUEAgMAAgLvzauJZ0UjAQ==", Convert.ToBase64String(recorder.Finish()));
            Assert.AreEqual(5u, recorder.Ticks);
        }

        [Test]
        public void APlayThatCannotBeIsNotEncoded()
        {
            var none = new ulong[0];
            Assert.Throws<ArgumentException>(() => Recording.Encode(new InputRun[0], none, 0));
            Assert.Throws<ArgumentException>(() => Recording.Encode(new[] { new InputRun(0, 1) }, none, 0));
            Assert.Throws<ArgumentException>(() => Recording.Encode(new[] { new InputRun(4, 1) }, none, 4));
            var long1 = new InputRun(uint.MaxValue, 1);
            Assert.Throws<ArgumentException>(() => Recording.Encode(new[] { long1, new InputRun(1, 1) }, none, 0));
            Assert.Throws<ArgumentException>(() => Recording.Encode(new[] { long1, new InputRun(1, 2) }, none, 0));
        }

        [Test]
        public void WhatCannotBeSignedIsRefused()
        {
            var target = new SignedTarget { Authority = "a", Path = "/" };
            foreach (var ticket in new[] { "", "a b", "a\"b", "a\\b", "a\nb", "\u00fc" })
            {
                var parameters = new SignatureParameters { Nonce = "0123456789abcdef", KeyId = ticket };
                Assert.Throws<ArgumentException>(
                    () => Signing.Sign(target, new byte[0], parameters, new byte[32]), ticket);
            }
        }

        [Test]
        public void ANonceHas24CharactersAndIsNewEachTime()
        {
            var options = new ScoregateOptions();
            var first = options.Nonce();
            Assert.AreEqual(24, first.Length);
            Assert.IsTrue(first != options.Nonce());
        }

        [Test]
        public void AClaimRefusesAStatisticThatIsThereTwice()
        {
            var claim = new Claim(-1, 2).WithStat("b", 3).WithStat("a", -4);
            Assert.Throws<ArgumentException>(() => claim.WithStat("b", 3));
            Assert.Throws<ArgumentException>(() => claim.CommittedBody());
            Assert.AreEqual(
                "{\"score\":-1,\"ticks\":2,\"stats\":{\"b\":3,\"a\":-4}}", Encoding.UTF8.GetString(claim.Body()));
        }
    }
}
