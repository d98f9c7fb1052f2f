// The part of NUnit that the tests use, and a program that runs them. In Unity they run in its Test Runner.
using System;
using System.Collections;
using System.Linq;
using System.Reflection;

namespace NUnit.Framework
{
    [AttributeUsage(AttributeTargets.Method)]
    public sealed class TestAttribute : Attribute
    {
    }

    [AttributeUsage(AttributeTargets.Method)]
    public sealed class SetUpAttribute : Attribute
    {
    }

    [AttributeUsage(AttributeTargets.Method)]
    public sealed class TearDownAttribute : Attribute
    {
    }

    public sealed class AssertionException : Exception
    {
        public AssertionException(string message) : base(message)
        {
        }
    }

    public static class Assert
    {
        public static void AreEqual(object expected, object actual, string message = "")
        {
            if (!Equals(expected, actual))
            {
                throw new AssertionException(message + " expected " + expected + " but was " + actual);
            }
        }

        public static void IsTrue(bool condition, string message = "") => AreEqual(true, condition, message);

        public static void IsFalse(bool condition, string message = "") => AreEqual(false, condition, message);

        public static void IsNull(object value, string message = "") => AreEqual(null, value, message);

        public static T Throws<T>(TestDelegate code, string message = "")
            where T : Exception
        {
            try
            {
                code();
            }
            catch (T error)
            {
                return error;
            }

            throw new AssertionException(message + " raised no " + typeof(T).Name);
        }
    }

    public static class CollectionAssert
    {
        public static void AreEqual(IEnumerable expected, IEnumerable actual) => Assert.AreEqual(
            string.Join(", ", expected.Cast<object>()), string.Join(", ", actual.Cast<object>()));
    }

    public delegate void TestDelegate();

    internal static class Program
    {
        private static int Main()
        {
            var failed = 0;
            var passed = 0;
            foreach (var type in Assembly.GetExecutingAssembly().GetTypes().OrderBy(type => type.Name))
            {
                foreach (var test in type.GetMethods().Where(Has<TestAttribute>).OrderBy(method => method.Name))
                {
                    var error = Run(type, test);
                    failed += error == null ? 0 : 1;
                    passed += error == null ? 1 : 0;
                    Console.WriteLine((error == null ? "passed " : "FAILED ") + type.Name + "." + test.Name + " " + error);
                }
            }

            Console.WriteLine(passed + " passed, " + failed + " failed");
            return failed == 0 && passed > 0 ? 0 : 1;
        }

        private static Exception Run(Type type, MethodInfo test)
        {
            var fixture = Activator.CreateInstance(type);
            try
            {
                Call<SetUpAttribute>(fixture);
                test.Invoke(fixture, null);
                return null;
            }
            catch (TargetInvocationException error)
            {
                return error.InnerException;
            }
            finally
            {
                Call<TearDownAttribute>(fixture);
            }
        }

        private static void Call<T>(object fixture)
            where T : Attribute
        {
            foreach (var method in fixture.GetType().GetMethods().Where(Has<T>))
            {
                method.Invoke(fixture, null);
            }
        }

        private static bool Has<T>(MethodInfo method)
            where T : Attribute => method.GetCustomAttributes(typeof(T), false).Length > 0;
    }
}
